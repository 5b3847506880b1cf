"""Connections to a kubelet that go on with the session of one before, and when they must not."""

import asyncio

import pytest
import trustme

from tests.unit.vnagent import wires
from vnagent.channel import ChannelLostError, ReceiveBuffer
from vnagent.kubelet import WORDS
from vnagent.origin import Address, Origin
from vnagent.peer import Peer
from vnagent.reload import WatchedFile

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
        if wires.read_until(peer, b"\r\n\r\n"):
            peer.sendall(ANSWER)
            wires.half_close(peer)

    trusted, token = WatchedFile(tmp_path / "ca.crt"), WatchedFile(tmp_path / "token")
    trusted.path.write_bytes(authority.cert_pem.bytes())
    token.path.write_bytes(b"token")
    for file in (trusted, token):
        await file.refresh()
    with wires.serving(wires.server_context(authority, "127.0.0.1"), serve) as (port, _):
        yield Origin(
            Address("127.0.0.1", port, "127.0.0.1"),
            authorities=trusted,
            token=token,
            buffer=ReceiveBuffer(),
        )


async def looked(origin: Origin) -> None:
    (await origin.dial(is_look=True)).close()


async def settled(resumed: list[bool], count: int) -> list[bool]:
    """Return how so many connections were made, once the server has noted the last."""
    async with asyncio.timeout(10):
        while len(resumed) < count:  # noqa: ASYNC110 - a thread notes it
            await asyncio.sleep(0.01)
    return resumed


async def test_what_was_verified_once_is_gone_on_with(origin, resumed):
    """The handshake of a command's connection costs half, on both sides."""
    for _ in range(3):
        assert (await origin.ask("GET", "/")).body == b"ok"
    assert await settled(resumed, 3) == [False, True, True]


async def test_so_it_is_with_streams(origin, resumed):
    """What a stream's connection has shown serves the next ones that are made for others."""
    for _ in range(2):
        opened = await Peer(origin, WORDS).open("GET", "/", [])
        opened.channel.abort()
    assert await settled(resumed, 2) == [False, True]


async def test_who_looks_at_a_certificate_sees_it(origin, resumed):
    """SEC-11: nor does the look leave a session of before to those that follow."""
    await origin.ask("GET", "/")
    await looked(origin)
    await origin.ask("GET", "/")
    assert await settled(resumed, 3) == [False, False, False]


async def test_other_authorities_verify_anew(origin, resumed):
    """SEC-11: whom they do not vouch for is dialled in vain, session or not."""
    await origin.ask("GET", "/")
    trusted = origin._authorities
    trusted.path.write_bytes(trusted.path.read_bytes() + b"\n")
    await trusted.refresh()
    await origin.ask("GET", "/")
    assert await settled(resumed, 2) == [False, False]
    trusted.path.write_bytes(trustme.CA().cert_pem.bytes())
    await trusted.refresh()
    with pytest.raises(ChannelLostError) as lost:
        await origin.dial()
    assert lost.value.is_untrusted


async def test_a_session_serves_for_minutes(origin, resumed):
    """SEC-11: counted from the handshake in which the certificate was shown."""
    await origin.ask("GET", "/")
    kept = origin._context._kept
    origin._context._kept = kept._replace(until=0.0)
    await origin.ask("GET", "/")
    await origin.ask("GET", "/")
    assert await settled(resumed, 3) == [False, False, True]
    assert origin._context._kept.until > kept.until
