"""Limits for connections of callers that are not identified yet."""

import asyncio
import contextlib
import socket

import pytest

from kubeio.http import tls_engine
from tests.support.eventually import eventually
from tests.support.vnagent import running_agent
from tests.support.vnagent.running_agent import FakeKubelet, outcome, refused
from vnagent.limits.peer_backoff import PeerBackoff
from vnagent.limits.pending_handshakes import MAX_PENDING_PER_SOURCE, PendingHandshakes
from vnagent.server import server as servers
from vnagent.stream import tls_stream as channels


@pytest.fixture
async def set_up(tmp_path):
    """A running agent."""
    async with running_agent.staged(tmp_path, FakeKubelet()) as found:
        yield found


async def test_a_slow_handshake_is_not_waited_for(set_up, monkeypatch):
    """REL-85: a caller without a verified certificate has little time."""
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", 0.1)

    def dawdle() -> bytes:
        with socket.create_connection(("127.0.0.1", set_up.port), timeout=10) as plain:
            plain.sendall(b"\x16\x03\x01")
            try:
                return plain.recv(1)
            except ConnectionResetError:
                return b""

    assert await asyncio.to_thread(dawdle) == b""


async def test_unauthenticated_connections_are_limited(set_up, monkeypatch):
    """SEC-15: connections that say nothing do not pile up, and tenants still get in after them."""
    set_up.server.listener.pending = PendingHandshakes(per_source=5)
    crowded = refused("crowded")
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", 0.5)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            plain = socket.create_connection(("127.0.0.1", set_up.port))
            stack.callback(plain.close)
        await eventually(lambda: set_up.server.listener.pending.count == 5)
        await eventually(lambda: refused("crowded") - crowded == 15)
        await eventually(lambda: set_up.server.listener.pending.count == 0)
        assert await outcome(set_up, set_up.context()) == "200"


async def test_a_flood_of_unauthenticated_clients_shuts_no_tenant_out(set_up, monkeypatch):
    """REL-85: a source that fills all its places leaves a tenant's where they are."""
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", 60.0)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(300):
            plain = socket.create_connection(
                ("127.0.0.1", set_up.port), source_address=("127.0.0.2", 0)
            )
            stack.callback(plain.close)
        await eventually(lambda: set_up.server.listener.pending.count == MAX_PENDING_PER_SOURCE)
        assert await outcome(set_up, set_up.context()) == "200"
        assert set_up.server.listener.pending.count == MAX_PENDING_PER_SOURCE


async def test_a_tenant_is_admitted_beside_unauthenticated_clients_of_many_addresses(
    set_up, monkeypatch
):
    """REL-85: no place is free, none is given back by itself, and the tenant was never here."""
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", 600.0)
    set_up.server.listener.pending = PendingHandshakes(per_source=5, total=12)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(2, 8):
            for _ in range(2):
                plain = socket.create_connection(
                    ("127.0.0.1", set_up.port), source_address=(f"127.0.0.{number}", 0)
                )
                stack.callback(plain.close)
        await eventually(lambda: set_up.server.listener.pending.count == 12)
        crowded, handshake = refused("crowded"), refused("handshake")
        for _ in range(4):
            assert await outcome(set_up, set_up.context()) == "200"
        # Who was shown out has done nothing wrong.
        assert (refused("crowded") - crowded, refused("handshake") - handshake) == (1, 0)
        assert len(set_up.server.listener.peer_backoff) == 1
    await eventually(lambda: set_up.server.listener.pending.count == 0)


async def test_an_often_refused_client_costs_no_more_handshakes(set_up, monkeypatch, capsys):
    """SEC-15: until it has been quiet for a while. It is told of once."""
    set_up.server.listener.peer_backoff = PeerBackoff(3, 60.0)
    engines: list[object] = []
    monkeypatch.setattr(
        channels,
        "TlsEngine",
        lambda *args, **more: engines.append(0) or tls_engine.TlsEngine(*args, **more),
    )
    unknown, repeated = refused("handshake"), refused("repeated")
    for _ in range(10):
        assert await outcome(set_up, set_up.context(None)) == "handshake"
    assert (refused("handshake") - unknown, refused("repeated") - repeated) == (3, 7)
    assert len(engines) == 3
    assert capsys.readouterr().out.count("refused repeatedly") == 1
    assert await outcome(set_up, set_up.context()) == "handshake"
    set_up.server.listener.peer_backoff = PeerBackoff(3, 0.0)  # as after a while
    assert await outcome(set_up, set_up.context()) == "200"


async def test_a_tenant_at_the_same_address_is_still_heard(set_up):
    """SEC-15: where several callers have one, who is refused does not shut out who is not."""
    set_up.server.listener.peer_backoff = PeerBackoff(3, 60.0)
    repeated = refused("repeated")
    assert await outcome(set_up, set_up.context()) == "200"
    for _ in range(10):
        assert await outcome(set_up, set_up.context(None)) == "handshake"
    assert await outcome(set_up, set_up.context()) == "200"
    assert refused("repeated") == repeated
