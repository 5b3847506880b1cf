"""Requests, streams and credentials of the REST client, on each transport."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
import pytest

from kubeio import errors
from kubeio.api import client as client_module
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from kubeio.http import transport_protocol
from kubeio.http.rest import ClientOptions
from tenancy.resources import CONFIG_MAPS, PODS
from tests.support.faults import misbehaving

pytestmark = pytest.mark.usefixtures("wire_in_use")
GOOD = {"kind": "Pod", "metadata": {"name": "a"}}


async def _get(client):
    return await client.get(PODS, "a", namespace="n")


async def _post(client):
    return await client.create(PODS, {"metadata": {"name": "a", "namespace": "n"}})


async def test_redirects_are_not_followed():
    async def handler(request, answer):
        await answer.json({}, code=302, Location="/elsewhere")

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        with pytest.raises(errors.ApiError) as caught:
            await _get(client)
        assert caught.value.status == 302
        assert [request.path for request in server.requests] == ["/api/v1/namespaces/n/pods/a"]


async def test_a_proxys_page_instead_of_json_is_transient():
    async def handler(request, answer):
        await answer.json(b"<html>maintenance")

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        with pytest.raises(errors.Unavailable, match="Check for a proxy in between"):
            await _get(client)


async def test_at_most_so_many_requests_are_under_way():
    under_way, most = 0, 0

    async def handler(request, answer):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        await answer.json(GOOD)

    async with (
        misbehaving(handler) as server,
        Client(server.endpoint, ClientOptions(connections=3)) as client,
    ):
        await asyncio.gather(*(_get(client) for _ in range(12)))
    assert most == 3


async def test_watches_do_not_take_the_requests_places():
    async def handler(request, answer):
        if "watch" in request.query:
            await answer.begin()
            await answer.hang()
        await answer.json(GOOD)

    async with (
        misbehaving(handler) as server,
        Client(server.endpoint, ClientOptions(connections=1)) as client,
        client.watch(PODS),
        client.watch(CONFIG_MAPS),
    ):
        assert await client.get(PODS, "a", namespace="n", deadline=2.0) == GOOD


async def test_a_silent_watch_ends():
    """REL-46."""

    async def handler(request, answer):
        await answer.begin()
        await answer.hang()

    async with misbehaving(handler) as server, Client(server.endpoint) as client:

        async def follow():
            async with client.watch(PODS, idle_timeout=0.1) as events:
                async for _ in events:
                    pass

        with pytest.raises(errors.Timeout, match=r"WATCH /api/v1/pods: no answer within 0\.1 s"):
            await follow()


async def _trickle(answer) -> None:
    """Send an event that is never complete, some bytes at a time."""
    while True:
        await answer.chunk(b"x" * 8)
        await asyncio.sleep(0.01)


async def _boast(answer) -> None:
    """Send whole events without end."""
    while True:
        await answer.event("ADDED", GOOD)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("send", "seconds", "said"),
    [
        (_trickle, 0, r"an event was not complete within 0\.2 s"),
        (_boast, 1, "the server did not end the watch in time"),
    ],
)
async def test_a_server_cannot_keep_a_watch_open_for_ever(monkeypatch, send, seconds, said):
    """REL-77."""
    monkeypatch.setattr(client_module, "WATCH_MARGIN_SECONDS", -0.8)

    async def handler(request, answer):
        await answer.begin()
        with contextlib.suppress(ConnectionError):
            await send(answer)

    async with misbehaving(handler) as server, Client(server.endpoint) as client:

        async def follow():
            async with client.watch(PODS, timeout_seconds=seconds, idle_timeout=0.2) as events:
                async for _ in events:
                    pass

        with pytest.raises(errors.Timeout, match=f"WATCH /api/v1/pods: {said}"):
            await asyncio.wait_for(follow(), 10)


async def test_the_refusal_of_a_watch_has_an_end():
    async def handler(request, answer):
        await answer.begin(500)
        with contextlib.suppress(ConnectionError):
            await _trickle(answer)

    options = ClientOptions(deadline=0.3)
    async with misbehaving(handler) as server, Client(server.endpoint, options) as client:

        async def follow():
            async with client.watch(PODS):
                pass

        with pytest.raises(errors.Timeout, match=r"no answer within 0\.3 s"):
            await asyncio.wait_for(follow(), 10)


async def test_lines_of_a_long_text_are_found_without_the_rest():
    async def handler(request, answer):
        await answer.json(b"".join(b'other_%d 1\nmine{a="%d"} 2\n' % (n, n) for n in range(2000)))

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        found = await client.find_lines("/metrics", start=b"mine", max_bytes=100_000)
        assert (len(found), found[7]) == (2000, b'mine{a="7"} 2')
        assert server.requests[0].path == "/metrics"
        with pytest.raises(errors.ResponseTooLarge, match="more than 1000 bytes"):
            await client.find_lines("/metrics", start=b"mine", max_bytes=1000)


async def test_a_refused_text_is_an_error_and_a_silent_one_ends():
    async def handler(request, answer):
        if request.path == "/refused":
            await answer.json({"kind": "Status", "reason": "Forbidden"}, code=403)
        else:
            await answer.begin()
            await answer.hang()

    options = ClientOptions(deadline=0.3)
    async with misbehaving(handler) as server, Client(server.endpoint, options) as client:
        with pytest.raises(errors.Forbidden):
            await client.find_lines("/refused", start=b"", max_bytes=10)
        with pytest.raises((errors.Timeout, TimeoutError)):
            await client.find_lines("/metrics", start=b"", max_bytes=10)


async def test_leaving_a_watch_closes_its_connection():
    closed = asyncio.Event()

    async def handler(request, answer):
        await answer.begin()
        try:
            while True:
                await answer.event("ADDED", GOOD)
                await asyncio.sleep(0.01)
        except ConnectionError:
            closed.set()

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        async with client.watch(PODS) as events:
            async for _ in events:
                break
        await asyncio.wait_for(closed.wait(), 5)


@contextlib.asynccontextmanager
async def _renewing(file):
    """Yield a server that takes a token only once its file has been renewed, and a client."""
    file.write_text("old")

    async def handler(request, answer):
        if request.headers["authorization"] == "Bearer new":
            await answer.json(GOOD)
        else:
            file.write_text("new")
            await answer.status(401, "Unauthorized")

    async with misbehaving(handler) as server:
        endpoint = Endpoint(server=server.endpoint.server, token_file=file)
        async with Client(endpoint) as client:
            yield server, client


async def test_the_token_is_renewed_once_on_a_401(tmp_path):
    async with _renewing(tmp_path / "token") as (server, client):
        assert await _post(client) == GOOD
    assert [r.headers["authorization"] for r in server.requests] == ["Bearer old", "Bearer new"]


async def test_a_large_body_is_sent_whole_at_each_try(tmp_path):
    """An object at the size limit, in base64, is more than what the loop takes in one piece."""
    large = {"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "x" * 2_500_000}}
    async with _renewing(tmp_path / "token") as (server, client):
        assert await client.create(CONFIG_MAPS, large) == GOOD
    assert [orjson.loads(request.body) for request in server.requests] == [large, large]


async def test_a_401_with_the_same_token_is_final(tmp_path):
    file = tmp_path / "token"
    file.write_text("old")

    async def handler(request, answer):
        await answer.status(401, "Unauthorized")

    async with misbehaving(handler) as server:
        endpoint = Endpoint(server=server.endpoint.server, token_file=file)
        async with Client(endpoint) as client:
            with pytest.raises(errors.Unauthorized):
                await _get(client)
            with pytest.raises(errors.Unauthorized):
                async with client.watch(PODS):
                    pass
    assert len(server.requests) == 2


async def test_acting_as_another_owner_is_reported_in_headers():
    async def handler(request, answer):
        await answer.json(GOOD)

    async with misbehaving(handler) as server:
        endpoint = Endpoint(
            server=server.endpoint.server, impersonate="me", impersonate_groups=("a", "b")
        )
        async with Client(endpoint) as client:
            await _get(client)
        async with Client(server.endpoint) as client:
            await _get(client)
    acting, plain = server.requests
    assert acting.headers["impersonate-user"] == "me"
    assert acting.headers["impersonate-group"] == "a,b"
    assert not any("impersonate" in header for header in plain.headers)


@pytest.mark.parametrize("most", [None, 1000], ids=["any server", "this server"])
async def test_an_endless_answer_is_refused_before_it_fills_the_memory(monkeypatch, most):
    if most is None:
        monkeypatch.setattr(transport_protocol, "MAX_RESPONSE_BYTES", 1000)

    async def endless(_, answer):
        await answer.begin()
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                await answer.chunk(b"x" * 100)

    async with (
        misbehaving(endless) as server,
        Client(server.endpoint, ClientOptions(max_response_bytes=most)) as client,
    ):
        with pytest.raises(errors.Unavailable, match="an answer of more than 1000 bytes"):
            await client.get(PODS, "a", namespace="n", deadline=2)
