"""Connections of the pool: which are used again, and the waiting for one."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from kubeio import errors
from kubeio.http import connection_pool, transport_protocol
from kubeio.http.connection_pool import ConnectionPool
from kubeio.http.rest import WATCH_IDLE_SECONDS
from tests.support.kubeio.scripted_servers import (
    ASKED,
    CHUNKED,
    NOTHING,
    TO_THE_END,
    TOLD,
    WHOLE,
    ScriptedServer,
    served,
    serving,
)


async def test_a_connection_is_used_again():
    script = ScriptedServer(*[WHOLE, CHUNKED, NOTHING, TOLD] * 3)
    async with served(script) as made:
        for _ in range(12):
            await made.exchange(ASKED, timeout_seconds=5)
    assert script.connections == 1


async def test_a_connection_that_the_server_lets_go_of_is_not():
    closing = WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    script = ScriptedServer(closing, WHOLE)
    async with served(script) as made:
        for _ in range(2):
            assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
    assert script.connections == 2


async def test_one_that_was_closed_meanwhile_is_replaced():
    script = ScriptedServer(WHOLE, WHOLE, ends=True)
    async with served(script) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        await asyncio.sleep(0.05)
        await made.exchange(ASKED._replace(method="POST"), timeout_seconds=5)
    assert script.connections == 2


async def test_an_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(transport_protocol, "IDLE_CONNECTION_SECONDS", 0.05)
    script = ScriptedServer(WHOLE, WHOLE)
    async with served(script) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        await asyncio.sleep(0.2)
        await made.exchange(ASKED, timeout_seconds=5)
    assert script.connections == 2


async def test_a_second_answer_is_not_used():
    script = ScriptedServer(WHOLE + WHOLE, CHUNKED)
    async with served(script) as made:
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello!"
    assert script.connections == 2


async def test_nothing_is_sent_after_the_end():
    asked = []

    async def silent(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(TO_THE_END)
        await reader.read(-1)

    async with serving(silent) as url:
        made = ConnectionPool(url, context=None, server_name=None, connections=1)
        tasks = [asyncio.create_task(made.exchange(ASKED, timeout_seconds=5)) for _ in range(2)]
        await asyncio.sleep(0.05)
        await made.close()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in found] == [errors.Unavailable] * 2
        with pytest.raises(errors.Unavailable, match="was closed"):
            await made.exchange(ASKED, timeout_seconds=5)
    assert len(asked) == 1


async def test_the_next_address_is_tried_when_one_is_dead(monkeypatch):
    async with served(ScriptedServer(WHOLE)) as made:

        async def addresses():
            return ["127.0.0.2", "127.0.0.1"]

        monkeypatch.setattr(made, "_resolve_addresses", addresses)
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"


@pytest.mark.parametrize(
    ("where", "problem", "told"),
    [
        ("getaddrinfo", socket.gaierror(socket.EAI_AGAIN, "no name server"), "no name server"),
        ("create_connection", OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
    ],
    ids=["names", "descriptors"],
)
@pytest.mark.parametrize("streams", [False, True])
async def test_what_a_connection_lacked_is_had_again(monkeypatch, where, problem, told, streams):
    """REL-52, REL-53: no name or no descriptor: what is kept goes on, no place is lost by it."""

    async def lacking(*_, **__):
        raise problem

    async def ask():
        if not streams:
            return (await made.exchange(ASKED, timeout_seconds=5)).content
        stream = await made.stream(ASKED, connect=5, idle_timeout=5)
        stream.abort()
        return b"hello"

    loop = asyncio.get_running_loop()
    async with served(ScriptedServer(WHOLE, WHOLE, WHOLE)) as made:
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
        with monkeypatch.context() as patch:
            patch.setattr(loop, where, lacking)
            assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
            for connection in tuple(made._all):
                connection.abort()
            await asyncio.sleep(0)
            for _ in range(3):
                with pytest.raises(errors.NotSent, match=told):
                    await ask()
        assert await ask() == b"hello"


async def test_a_place_is_given_on_by_those_who_give_up():
    script = ScriptedServer(b"", WHOLE, WHOLE, WHOLE)  # the first gets nothing
    async with served(script) as made:
        first = asyncio.create_task(made.exchange(ASKED, timeout_seconds=5))
        await asyncio.sleep(0.02)
        second, third, fourth = (
            asyncio.create_task(made.exchange(ASKED, timeout_seconds=5)) for _ in range(3)
        )
        with pytest.raises(errors.NotSent, match="no connection was made in time"):
            await made.exchange(ASKED, timeout_seconds=0.01)
        second.cancel()
        first.cancel()
        assert (await third).content == (await fourth).content == b"hello"
        await asyncio.gather(first, second, return_exceptions=True)


def test_a_server_that_vanished_is_noticed_before_its_bookmarks_tell():
    idle, interval, count = connection_pool._KEEPALIVE_SECONDS
    assert idle + interval * count == 45 < WATCH_IDLE_SECONDS
