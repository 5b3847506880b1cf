"""Callers that may connect, and connections at a reload and at the end."""

import asyncio
import contextlib
import socket
import ssl
import struct
from dataclasses import replace

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent import certificates, running_agent
from tests.support.vnagent.certificates import DAY, URI, VALID, named
from tests.support.vnagent.running_agent import EXEC, GREETING, LOGS, FakeKubelet, outcome, refused
from vnagent.authz import metrics
from vnagent.server import audit
from vnagent.stream import tls_contexts
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import TlsStream

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
async def set_up(tmp_path):
    """A running agent."""
    async with running_agent.staged(tmp_path, FakeKubelet()) as found:
        yield found


async def test_certificates_that_do_not_verify_end_at_the_handshake(set_up, tmp_path):
    """SEC-01: no one of these is read from, and no kubelet is dialled for them."""
    strangers = certificates.make_authority()
    foreign = tls_sockets.client_context(set_up.serving_authority)
    certificates.present(foreign, tmp_path, strangers, VALID, strangers.pem)
    below = certificates.make_authority("below", parent=set_up.client_authority)
    deep = tls_sockets.client_context(set_up.serving_authority)
    certificates.present(deep, tmp_path, below, VALID, below.pem)
    contexts = {
        "none": set_up.context(None),
        "foreign": foreign,
        "deep": deep,
        "expired": set_up.context(replace(VALID, begins=-3 * DAY, ends=-DAY)),
        "early": set_up.context(replace(VALID, begins=DAY, ends=2 * DAY)),
        "server": set_up.context(replace(VALID, usages=(ExtendedKeyUsageOID.SERVER_AUTH,))),
        "unknown critical": set_up.context(replace(VALID, unknown_critical=True)),
    }
    found = {name: await outcome(set_up, context) for name, context in contexts.items()}
    assert found == dict.fromkeys(contexts, "handshake")
    assert set_up.kubelet.connections == 0
    assert await outcome(set_up, set_up.context()) == "200"


async def test_certificates_without_an_identity_are_reported(set_up):
    """They can only be our own mistake. Still no kubelet is dialled."""
    leaves = [
        replace(VALID, names=()),
        named(URI, URI.replace("one", "two")),
        replace(VALID, usages=None),
        replace(VALID, is_authority=True),
        replace(VALID, key=rsa.generate_private_key(65537, 1024)),  # noqa: S505 - the point
    ]
    for leaf in leaves:
        context = tls_sockets.client_context(set_up.serving_authority)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        certificates.present(context, set_up.folder, set_up.client_authority, leaf)
        assert await outcome(set_up, context) in ("403", "handshake")
    assert set_up.kubelet.connections == 0


async def test_old_protocols_are_refused(set_up):
    """TLS 1.3 alone: OpenSSL would keep the sessions of 1.2 by the ten thousand."""
    context = set_up.context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert await outcome(set_up, context) == "handshake"
    context = set_up.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await outcome(set_up, context) == "handshake"
    context = set_up.context()
    assert await outcome(set_up, context) == "200"
    assert set_up.server.listener._context.session_stats()["number"] == 0


async def test_only_http_1_is_spoken(set_up):
    """An upgrade does not exist in HTTP/2, so it is never agreed on."""
    context = set_up.context()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def chosen() -> str | None:
        with tls_sockets.dial(set_up.port, context) as peer:
            return peer.selected_alpn_protocol()

    assert await asyncio.to_thread(chosen) == "http/1.1"
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
    assert (await set_up.send(preface, context)).startswith(b"HTTP/1.1 400 ")


def resume(set_up: running_agent.RunningAgent, context: ssl.SSLContext) -> tuple[bool, bytes]:
    """Connect twice, the second time with the first one's session. Tell whether it was taken."""
    with tls_sockets.dial(set_up.port, context) as peer:
        peer.sendall(HEALTH)
        tls_sockets.read_all(peer)
        session = peer.session
    set_up.server.use_context(set_up.server.listener._context, [])
    plain = socket.create_connection(
        ("127.0.0.1", set_up.port), timeout=tls_sockets.PATIENCE_SECONDS
    )
    with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as again:
        return bool(again.session_reused), tls_sockets.read_until(again, b"\r\n")


async def test_no_session_is_resumed(set_up):
    """A caller of a removed authority must present its certificate again, and is refused."""
    is_resumed, answer = await asyncio.to_thread(resume, set_up, set_up.context())
    assert not is_resumed
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_refusals_are_counted_by_tenant_where_our_authority_names_one(set_up, monkeypatch):
    """SEC-15: what another authority writes into a certificate is no tenant's word."""
    monkeypatch.setattr(metrics._TENANT_LABELS, "_labels", {})
    tenant = metrics.get_tenant_label(certificates.VC_UID)
    before = refused("certificate", tenant), refused("handshake"), refused("certificate")
    assert await outcome(set_up, set_up.context(replace(VALID, usages=None))) == "403"
    assert await outcome(set_up, set_up.context(replace(VALID, names=()))) == "403"
    foreign = tls_sockets.client_context(set_up.serving_authority)
    certificates.present(foreign, set_up.folder, certificates.make_authority(), VALID)
    assert await outcome(set_up, foreign) == "handshake"
    after = refused("certificate", tenant), refused("handshake"), refused("certificate")
    assert after == (before[0] + 1, before[1] + 1, before[2] + 1)


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\xff\xff" + b"x" * 5000]
)
async def test_garbage_harms_no_client(set_up, garbage):
    """A connection without TLS ends, and the next caller is served."""

    def talk() -> None:
        with socket.create_connection(("127.0.0.1", set_up.port), timeout=10) as plain:
            plain.sendall(garbage)
            plain.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while plain.recv(1000):
                    pass

    await asyncio.to_thread(talk)
    assert await outcome(set_up, set_up.context()) == "200"


def ping_pong(peer: ssl.SSLSocket, _: bytes) -> None:
    """Switch, then answer each byte."""
    peer.sendall(running_agent.SWITCHED)
    while peer.recv(1):
        peer.sendall(b"!")


class OpenStream:
    """A stream that a test keeps open in a thread of its own."""

    def __init__(self, set_up: running_agent.RunningAgent) -> None:
        self.peer = tls_sockets.dial(set_up.port, set_up.context())
        self.peer.sendall(EXEC)
        assert b" 101 " in tls_sockets.read_until(self.peer, b"\r\n\r\n")

    def is_alive(self) -> bool:
        """Send a byte and wait for the answer."""
        self.peer.sendall(b"?")
        return self.peer.recv(1) == b"!"


async def test_live_streams_survive_a_new_certificate(tmp_path):
    """REL-92: new handshakes use what is new, streams go on."""
    async with running_agent.staged(tmp_path, FakeKubelet(answer=ping_pong)) as set_up:
        live = await asyncio.to_thread(OpenStream, set_up)
        with live.peer:
            assert await asyncio.to_thread(live.is_alive)
            old = set_up.context()
            callers, serving = certificates.make_authority(), trustme.CA()
            pair = serving.issue_cert("127.0.0.1")
            context = tls_contexts.create_server_context(
                certificate=pair.cert_chain_pems[0].bytes(),
                key=pair.private_key_pem.bytes(),
                client_authorities=callers.pem,
            )
            set_up.server.use_context(context, [callers.certificate])
            assert await outcome(set_up, old) == "handshake"
            set_up.serving_authority, set_up.client_authority = serving, callers
            set_up.kubelet.answer = running_agent.saying(GREETING)
            assert await outcome(set_up, set_up.context()) == "200"
            assert await asyncio.to_thread(live.is_alive)


async def test_streams_live_on_while_draining_and_are_cut_at_its_end(tmp_path, monkeypatch):
    """REL-91: no new ones, time for the open ones, then a break that is not an orderly end."""
    recorded: list[audit.RequestAudit] = []
    monkeypatch.setattr(audit, "write_audit_record", recorded.append)
    async with running_agent.staged(tmp_path, FakeKubelet(answer=ping_pong)) as set_up:
        live = await asyncio.to_thread(OpenStream, set_up)
        with live.peer:
            set_up.streams.stop_accepting()
            closing = asyncio.ensure_future(set_up.server.listener.close(drain_seconds=1.0))
            await eventually(lambda: not set_up.server.listener.is_open)
            assert await asyncio.to_thread(live.is_alive)
            with pytest.raises(ConnectionRefusedError):
                await set_up.send(LOGS)
            await closing
            live.peer.suppress_ragged_eofs = False
            with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
                await asyncio.to_thread(live.peer.recv, 1)
    assert [(line.result, line.bytes_down > 0) for line in recorded] == [("drained", True)]


async def test_no_new_connection_outlives_the_listener(tmp_path):
    """A task that is cancelled before it has begun cleans nothing up."""
    come: list[TlsStream] = []
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
        door = set_up.server.listener
        channel = TlsStream(set_up.context(), ReceiveBuffer(), accepted=come.append)
        near, far = socket.socketpair()
        with far:
            await asyncio.get_running_loop().create_connection(lambda: channel, sock=near)
            door._handle_connection(come[0])
            await door.close()  # in the same turn of the loop
            await eventually(lambda: channel.is_lost)
        assert door._pending_tasks == {}


async def test_a_drain_ends_with_the_last_stream(tmp_path):
    """No one waits for nothing."""
    gateway = running_agent.HeldKubelet()
    async with running_agent.staged(tmp_path, FakeKubelet(answer=gateway)) as set_up:
        asking = asyncio.ensure_future(set_up.send(LOGS))
        await asyncio.to_thread(gateway.entered.wait, tls_sockets.PATIENCE_SECONDS)
        closing = asyncio.ensure_future(set_up.server.listener.close(drain_seconds=60))
        gateway.open()
        async with asyncio.timeout(10):
            await closing
        assert (await asking).startswith(b"HTTP/1.1 200 ")


async def test_streams_cut_at_random_leave_nothing(tmp_path):
    """Sockets and tasks of streams that either side has cut are gone."""
    async with running_agent.staged(tmp_path, FakeKubelet(answer=ping_pong)) as set_up:
        before = len(asyncio.all_tasks())
        context = set_up.context()

        def cut(number: int) -> None:
            whole = number % 3
            with contextlib.suppress(OSError):
                peer = tls_sockets.dial(set_up.port, context)
                peer.sendall(EXEC if whole else EXEC[:-20])
                if whole and number % 2:
                    tls_sockets.read_until(peer, b"\r\n\r\n")
                if number % 5:
                    linger = struct.pack("ii", 1, 0)  # so that closing is a reset
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                peer.close()

        await asyncio.gather(*(asyncio.to_thread(cut, number) for number in range(60)))
        await eventually(lambda: set_up.streams.count == 0 and len(asyncio.all_tasks()) <= before)
