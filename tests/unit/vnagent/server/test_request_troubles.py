"""One request through the whole agent when something is amiss: a kubelet, a credential, a limit."""

import asyncio
import contextlib
import socket
import ssl
from functools import partial

import pytest
import trustme
from prometheus_client import REGISTRY

from tenancy.agent_permissions import KubeletCall
from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent import running_agent
from tests.support.vnagent.certificates import KEY, VC_UID, named
from tests.support.vnagent.running_agent import (
    EXEC,
    GREETING,
    LOGS,
    OTHER,
    RUN,
    FakeKubelet,
    echo_after_switch,
    status_of,
)
from vnagent.authz import metrics
from vnagent.limits.concurrency import StreamLimiter
from vnagent.limits.token_bucket import TenantBuckets
from vnagent.protocol.http_heads import RequestHead
from vnagent.server import request
from vnagent.stream.tls_stream import TlsStream


async def test_a_kubelet_that_cannot_be_trusted_gets_no_token(tmp_path):
    """SEC-11: an impostor with a certificate of its own. The session is counted as such."""
    labels = {"result": "kubelet_untrusted"}
    before = REGISTRY.get_sample_value("vc_agent_sessions_total", labels) or 0.0
    async with running_agent.staged(
        tmp_path, FakeKubelet(), kubelet_authority=trustme.CA()
    ) as set_up:
        got = await set_up.send(LOGS)
        assert (status_of(got), b"does not verify" in got) == (502, True)
        assert set_up.kubelet.heads == []
    assert REGISTRY.get_sample_value("vc_agent_sessions_total", labels) == before + 1


async def test_a_kubelet_of_another_name_gets_no_token(tmp_path):
    """SEC-11: a certificate of our authority for another node."""
    async with running_agent.staged(tmp_path, FakeKubelet(), server_name="127.0.0.2") as set_up:
        got = await set_up.send(LOGS)
        assert (status_of(got), b"does not verify" in got) == (502, True)
        assert set_up.kubelet.heads == []


async def test_a_kubelet_that_is_down_is_reported_to_be(tmp_path):
    """502 and a sentence, on each request again."""
    kubelet = FakeKubelet()
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        await set_up.send(LOGS)
        kubelet.lists_status = b"503 Busy"
        kubelet.pods = []
        got = await set_up.send(LOGS.replace(b"shop", b"late"))
        assert status_of(got) == 502


async def test_a_refused_token_is_read_again_once(tmp_path):
    """REL-60: the file has a newer one. Without it the caller is told, not the kubelet's words."""
    kubelet = FakeKubelet()

    def demand(peer: ssl.SSLSocket, head: bytes) -> None:
        if b"Bearer second-token" in head:
            peer.sendall(GREETING)
        else:
            peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    kubelet.answer = demand
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(LOGS)
        assert (status_of(got), b"does not accept the node agent" in got) == (502, True)
        set_up.token_file.write_bytes(b"second-token")
        assert status_of(await set_up.send(LOGS)) == 200
        assert len(kubelet.asked) == 3


async def test_a_missing_token_is_not_taken_for_a_bad_certificate(tmp_path, recorded):
    """Nothing is sent without one. The one that looks for the trouble looks in the right place."""
    kubelet = FakeKubelet()

    def demand(peer: ssl.SSLSocket, _: bytes) -> None:
        peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    kubelet.answer = demand
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        set_up.token_file.write_bytes(b"no token\n")
        got = await set_up.send(LOGS)
        assert (status_of(got), b"has no credential for the node's kubelet" in got) == (502, True)
        assert len(kubelet.asked) == 1
        await eventually(lambda: recorded)
        assert recorded[-1].result == "kubelet_denies"


async def test_a_missing_right_is_not_blamed_on_the_tenant(tmp_path):
    """The kubelet's 403 names our account. The tenant hears that the agent was refused."""
    text = b"Forbidden (user=system:serviceaccount:vc-manager:vn-agent)"
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = FakeKubelet(answer=running_agent.saying(answer))
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(EXEC)
        assert (status_of(got), b"serviceaccount" in got) == (502, False)


async def test_a_silent_log_ends_with_its_caller(tmp_path, recorded):
    """The kubelet sends no head before the first line, maybe for hours."""
    gateway = running_agent.HeldKubelet()
    kubelet = FakeKubelet(answer=gateway)
    async with running_agent.staged(tmp_path, kubelet) as set_up:

        def leave() -> None:
            with tls_sockets.dial(set_up.port, set_up.context()) as peer:
                peer.sendall(LOGS)
                gateway.entered.wait(tls_sockets.PATIENCE_SECONDS)
                tls_sockets.half_close(peer)
                with contextlib.suppress(OSError):
                    peer.recv(1)

        async with asyncio.timeout(tls_sockets.PATIENCE_SECONDS / 2):  # the gateway waits longer
            await asyncio.to_thread(leave)
        await eventually(lambda: recorded)
        assert recorded[0].result == "caller_gone"
        await eventually(lambda: set_up.streams.count == 0)
        gateway.open()


@pytest.mark.parametrize("call", [EXEC, RUN, LOGS], ids=["exec", "run", "logs"])
async def test_nothing_is_asked_for_a_caller_that_has_gone(tmp_path, recorded, monkeypatch, call):
    """A command would run for no one."""
    read_head = request._read_head

    async def read_to_the_end(channel: TlsStream) -> RequestHead:
        head = await read_head(channel)
        await eventually(lambda: channel.has_ended)
        return head

    monkeypatch.setattr(request, "_read_head", read_to_the_end)
    asked: list[object] = []
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
        monkeypatch.setattr(set_up.upstream, "open", lambda *words: asked.append(words))

        def talk() -> None:
            with tls_sockets.dial(set_up.port, set_up.context()) as peer:
                peer.sendall(call)
                tls_sockets.half_close(peer)
                with contextlib.suppress(OSError):
                    peer.recv(1)

        await asyncio.to_thread(talk)
        await eventually(lambda: recorded)
        assert (recorded[0].result, asked) == ("caller_gone", [])


async def test_who_does_not_wait_for_the_switch_is_let_go(tmp_path, recorded):
    """Its end could not be seen behind all that it has sent, and it would keep its place."""
    gateway = running_agent.HeldKubelet()
    async with running_agent.staged(tmp_path, FakeKubelet(answer=gateway)) as set_up:

        def talk() -> None:
            with tls_sockets.dial(set_up.port, set_up.context()) as peer:
                peer.sendall(EXEC)
                gateway.entered.wait(tls_sockets.PATIENCE_SECONDS)
                with contextlib.suppress(OSError):
                    peer.sendall(b"x" * 1_000_000)
                    peer.recv(1)

        await asyncio.to_thread(talk)
        await eventually(lambda: recorded)
        assert recorded[0].result == "caller_gone"
        gateway.open()


async def test_a_switch_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    """A node that vanishes in between says nothing. A log may be silent, an exec may not."""
    monkeypatch.setattr(request, "UPGRADE_SECONDS", 0.2)
    gateway = running_agent.HeldKubelet()
    async with running_agent.staged(tmp_path, FakeKubelet(answer=gateway)) as set_up:
        silent = asyncio.ensure_future(set_up.send(LOGS))
        got = await set_up.send(EXEC)
        assert (status_of(got), b"did not answer in time" in got) == (504, True)
        await eventually(lambda: set_up.streams.count == 1)
        gateway.open()
        assert status_of(await silent) == 200


@pytest.mark.parametrize(("call", "limit"), [(LOGS, "idle"), (LOGS, "total"), (RUN, "run")])
async def test_the_wait_for_the_first_byte_is_limited(tmp_path, monkeypatch, call, limit):
    """SEC-15: a place, and of runs there are few, comes back from who says nothing at all."""
    if limit == "run":
        monkeypatch.setattr(request, "RUN_SECONDS", 0.2)
    else:
        seconds = {f"{limit}_seconds": 0.2}
        monkeypatch.setattr(
            running_agent, "RelayDeadlines", partial(running_agent.RelayDeadlines, **seconds)
        )
    gateway = running_agent.HeldKubelet()
    async with running_agent.staged(tmp_path, FakeKubelet(answer=gateway)) as set_up:
        assert status_of(await set_up.send(call)) == 408
        await eventually(lambda: set_up.streams.count == 0)
        gateway.open()


async def test_a_refusal_is_answered_in_a_place(tmp_path):
    """SEC-15: a caller that does not read it holds a connection. Their number is limited."""
    nonsense = b"GET /nonsense HTTP/1.1\r\nHost: a\r\n\r\n"
    async with running_agent.staged(
        tmp_path, FakeKubelet(), streams=StreamLimiter(per_tenant=2)
    ) as set_up:
        async with contextlib.AsyncExitStack() as deaf:
            for number in range(2):
                peer = await asyncio.to_thread(tls_sockets.dial, set_up.port, set_up.context())
                deaf.callback(peer.close)
                await asyncio.to_thread(peer.sendall, nonsense)
                await eventually(lambda number=number: set_up.streams.count == number + 1)
            assert status_of(await set_up.send(LOGS)) == 429
        await eventually(lambda: set_up.streams.count == 0)
        assert status_of(await set_up.send(LOGS)) == 200


async def test_few_runs_at_once(tmp_path):
    """SEC-15: the node keeps the whole output of each until its end. Other calls go on."""
    gateway = running_agent.HeldKubelet()
    kubelet = FakeKubelet(answer=gateway)
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        running = [asyncio.ensure_future(set_up.send(RUN)) for _ in range(2)]
        await eventually(lambda: len(kubelet.asked) >= 2)
        got = await set_up.send(RUN)
        assert (status_of(got), b"has 2 runs open on the node" in got) == (429, True)
        other = asyncio.ensure_future(set_up.send(LOGS))
        await eventually(lambda: len(kubelet.asked) >= 3)
        gateway.open()
        assert {status_of(await one) for one in (*running, other)} == {200}
        assert status_of(await set_up.send(RUN)) == 200


async def test_one_stream_too_many_is_reported_with_the_reason(tmp_path):
    """SEC-15: 429 for the greedy tenant, 200 for the other."""
    gateway = running_agent.HeldKubelet()
    kubelet = FakeKubelet(pods=[running_agent.shop(), running_agent.shop(OTHER)], answer=gateway)
    async with running_agent.staged(
        tmp_path, kubelet, streams=StreamLimiter(per_tenant=2)
    ) as set_up:
        first = [asyncio.ensure_future(set_up.send(LOGS)) for _ in range(2)]
        await eventually(lambda: len(kubelet.asked) >= 2)
        got = await set_up.send(LOGS)
        assert (status_of(got), b"Retry-After: 1" in got) == (429, True)
        assert b"2 streams open on the node" in got
        other = asyncio.ensure_future(
            set_up.send(LOGS, set_up.context(named(f"vc://{OTHER}/{KEY}")))
        )
        await eventually(lambda: len(kubelet.asked) >= 3)
        gateway.open()
        assert [status_of(got) for got in await asyncio.gather(*first, other)] == [200] * 3
        assert status_of(await set_up.send(LOGS)) == 200


async def test_a_tenant_that_asks_without_end_waits_its_turn(tmp_path):
    """SEC-15: each request takes time of everyone's, a long one more. The other tenant has its."""
    long = b"GET /healthz?a=%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * 17_000)
    short = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    async with running_agent.staged(
        tmp_path, FakeKubelet(), paces=TenantBuckets(5, 60.0)
    ) as set_up:
        asked = [await set_up.send(raw) for raw in (b"no head\r\n\r\n", long, short, short)]
        assert [status_of(got) for got in asked] == [400, 200, 200, 429]
        assert b"more requests to the node than its share" in asked[-1]
        assert b"Retry-After: 1" in asked[-1]
        assert status_of(await set_up.send(LOGS)) == 429
        figures = set_up.context(named(f"vc-figures://{VC_UID}/{KEY}"))
        assert status_of(await set_up.send(short, figures)) == 403  # not 429
        other = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        assert status_of(await set_up.send(short, other)) == 200


async def test_a_tenant_that_goes_on_past_its_limit_is_no_longer_answered(
    tmp_path, monkeypatch, recorded, capsys
):
    """SEC-15: nor read, nor written down, for as long. The other tenant is, at the same address."""
    monkeypatch.setattr(request, "FLOOD_BURST", 3)
    monkeypatch.setattr(request, "FLOOD_INTERVAL_SECONDS", 60.0)
    monkeypatch.setattr(metrics._TENANT_LABELS, "_labels", {})
    gateway = running_agent.HeldKubelet()
    kubelet = FakeKubelet(pods=[running_agent.shop()], answer=gateway)
    labels = {"tenant": metrics.get_tenant_label(VC_UID), "reason": "repeated"}
    before = REGISTRY.get_sample_value("vc_agent_connections_refused_total", labels) or 0.0
    async with running_agent.staged(
        tmp_path, kubelet, streams=StreamLimiter(per_tenant=1)
    ) as set_up:
        first = asyncio.ensure_future(set_up.send(LOGS))
        await eventually(lambda: kubelet.asked)
        for _ in range(3):
            assert status_of(await set_up.send(LOGS)) == 429
        for _ in range(4):
            with contextlib.suppress(OSError):
                assert await set_up.send(LOGS) == b""
        await eventually(lambda: len(recorded) == 3)
        other = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        assert status_of(await set_up.send(LOGS, other)) == 404
        gateway.open()
        assert status_of(await first) == 200
    assert REGISTRY.get_sample_value("vc_agent_connections_refused_total", labels) == before + 4
    assert capsys.readouterr().out.count("continues beyond its limit") == 1


async def test_what_is_switched_off_ends(tmp_path, recorded):
    """A running session is cut, and one that waits for the kubelet is told. Others go on."""
    gateway = running_agent.HeldKubelet()
    kubelet = FakeKubelet(
        answer=lambda peer, head: (
            gateway(peer, head) if head.startswith(b"GET /c") else echo_after_switch(peer, head)
        )
    )
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        waiting = asyncio.ensure_future(set_up.send(LOGS))
        with await asyncio.to_thread(tls_sockets.dial, set_up.port, set_up.context()) as peer:
            await asyncio.to_thread(peer.sendall, EXEC)
            await asyncio.to_thread(tls_sockets.read_until, peer, b"first ")
            await eventually(lambda: set_up.permits.count == 2)
            set_up.permits.update(running_agent.access(KubeletCall.EXEC))
            peer.suppress_ragged_eofs = False
            with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
                await asyncio.to_thread(peer.recv, 1)
        await eventually(lambda: recorded)
        assert (recorded[0].status, recorded[0].result) == (101, "disabled")
        assert set_up.permits.count == 1
        set_up.permits.update(running_agent.access(KubeletCall.LOGS))
        got = await waiting
        assert (status_of(got), b"logs is disabled" in got) == (403, True)
        assert (set_up.permits.count, set_up.streams.count) == (0, 0)
        gateway.open()


async def test_a_runtime_that_restarts_ends_streams_and_is_reported(tmp_path, recorded):
    """REL-90: the kubelet lives. What ran is broken off, what is new gets the kubelet's words."""
    text = b"rpc error: code = Unavailable desc = connection refused"
    down = b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = FakeKubelet(answer=lambda peer, _: _break_off(peer))
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(EXEC)
        assert got.startswith(b"HTTP/1.1 101 ")
        assert got.endswith(b"first")
        kubelet.answer = running_agent.saying(down)
        got = await set_up.send(EXEC)
        assert (status_of(got), text in got) == (500, True)
        kubelet.answer = running_agent.saying(GREETING)
        assert status_of(await set_up.send(LOGS)) == 200
        assert (set_up.streams.count, set_up.permits.count) == (0, 0)
    assert [line.result for line in recorded] == ["kubelet_lost", "kubelet_refused", "complete"]


def _break_off(peer: ssl.SSLSocket) -> None:
    peer.sendall(running_agent.SWITCHED + b"first")
    socket.socket.shutdown(peer, socket.SHUT_RDWR)


@pytest.mark.parametrize("junk", [0, 100_000, 400_000])
async def test_a_caller_that_goes_before_its_silent_log_begins_leaves_nothing(tmp_path, junk):
    """Whatever it sent behind its request: its end stands behind that."""
    gate = running_agent.HeldKubelet()
    async with running_agent.staged(tmp_path, FakeKubelet(answer=gate)) as found:

        def talk() -> None:
            with tls_sockets.dial(found.port, found.context()) as peer:
                peer.sendall(LOGS)
                assert gate.entered.wait(tls_sockets.PATIENCE_SECONDS)
                with contextlib.suppress(OSError):
                    peer.sendall(b"x" * junk)

        await asyncio.to_thread(talk)
        await eventually(lambda: found.streams.count == 0, within=tls_sockets.PATIENCE_SECONDS / 4)
        gate.open()
