"""Connections to a kubelet that go on with the session of one before, and when they must not."""

import asyncio

import pytest
import trustme

from tests.support import tls_sockets
from tests.support.eventually import eventually
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.client.upstream_server import UpstreamServer
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import StreamLostError, TlsStream
from vnagent.upstream.kubelet import KUBELET_LABELS

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def resumed() -> list[bool]:
    """Whether each connection that was served went on with another's session."""
    return []


@pytest.fixture
async def origin(authority, resumed, tmp_path):
    """A server that notes how its connections were made."""

    def serve(peer) -> None:
        resumed.append(bool(peer.session_reused))
        if tls_sockets.read_until(peer, b"\r\n\r\n"):
            peer.sendall(ANSWER)
            tls_sockets.half_close(peer)

    trusted, token = WatchedFile(tmp_path / "ca.crt"), WatchedFile(tmp_path / "token")
    trusted.path.write_bytes(authority.cert_pem.bytes())
    token.path.write_bytes(b"token")
    for file in (trusted, token):
        await file.refresh()
    with tls_sockets.serving(tls_sockets.server_context(authority, "127.0.0.1"), serve) as (
        port,
        _,
    ):
        yield HttpsClient(
            ServerAddress("127.0.0.1", port, "127.0.0.1"),
            authorities=trusted,
            token=token,
            buffer=ReceiveBuffer(),
        )


async def looked(origin: HttpsClient) -> None:
    (await origin.connect(is_probe=True)).close()


def late(origin: HttpsClient, channel: TlsStream) -> bool:
    """Have an answer begin only now, and tell whether that leaves a session."""
    origin.remember_session(channel)
    return origin._context._session_entry is not None


async def settled(resumed: list[bool], count: int) -> list[bool]:
    """Return how so many connections were made, once the server has noted the last."""
    await eventually(lambda: len(resumed) >= count)
    return resumed


async def test_what_was_verified_once_is_gone_on_with(origin, resumed):
    """The handshake of a command's connection costs half, on both sides."""
    for _ in range(3):
        assert (await origin.request("GET", "/")).body == b"ok"
    assert await settled(resumed, 3) == [False, True, True]


async def test_so_it_is_with_streams(origin, resumed):
    """The TLS session of a stream's connection serves later connections."""
    for _ in range(2):
        opened = await UpstreamServer(origin, KUBELET_LABELS).open("GET", "/", [])
        opened.channel.abort()
    assert await settled(resumed, 2) == [False, True]


async def test_who_looks_at_a_certificate_sees_it(origin, resumed):
    """SEC-11: whatever becomes of sessions meanwhile. Only a dial reports a certificate."""
    told: list[Exception | None] = []
    origin.on_dialed = told.append
    await origin.request("GET", "/")
    await looked(origin)
    await settled(resumed, 2)  # the server records a handshake after the client has its answer
    await origin.request("GET", "/")
    assert await settled(resumed, 3) == [False, False, True]
    assert told == [None, None]


async def answered(origin: HttpsClient) -> TlsStream:
    channel = await origin.connect()
    channel.write(b"GET / HTTP/1.1\r\n\r\n")
    await channel.read()
    return channel


async def test_what_was_shown_before_a_failure_serves_no_one_after_it(origin):
    """SEC-11: a log whose first line comes late has a connection from before."""
    early = await answered(origin)
    good = origin._authorities.content
    origin._authorities.content = trustme.CA().cert_pem.bytes()
    with pytest.raises(StreamLostError):
        await origin.connect(is_probe=True)
    origin._authorities.content = good
    assert not late(origin, early)
    early.abort()


async def test_the_latest_proof_is_kept(origin):
    """Not that of a log that was opened before, and has said nothing until now."""
    older, newer = await answered(origin), await answered(origin)
    assert late(origin, newer)
    kept = origin._context._session_entry
    assert late(origin, older)
    assert origin._context._session_entry is kept
    older.abort()
    newer.abort()


async def test_who_hangs_over_a_session_is_offered_none_again(origin, resumed):
    """Though its caller has given up sooner than the agent would."""
    await origin.request("GET", "/")
    dialling = asyncio.ensure_future(origin.connect())
    await asyncio.sleep(0)
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    assert origin._context._session_entry is None


async def test_other_authorities_verify_again(origin, resumed):
    """SEC-11: an untrusted server is refused, also with a session to resume."""
    await origin.request("GET", "/")
    trusted = origin._authorities
    trusted.path.write_bytes(trusted.path.read_bytes() + b"\n")
    await trusted.refresh()
    await origin.request("GET", "/")
    assert await settled(resumed, 2) == [False, False]
    trusted.path.write_bytes(trustme.CA().cert_pem.bytes())
    await trusted.refresh()
    with pytest.raises(StreamLostError) as lost:
        await origin.connect()
    assert lost.value.is_untrusted


async def test_a_session_serves_for_minutes(origin, resumed):
    """SEC-11: counted from the handshake in which the certificate was shown."""
    await origin.request("GET", "/")
    kept = origin._context._session_entry
    origin._context._session_entry = kept._replace(until=0.0)
    await origin.request("GET", "/")
    await origin.request("GET", "/")
    assert await settled(resumed, 3) == [False, False, True]
    assert origin._context._session_entry.until > kept.until
