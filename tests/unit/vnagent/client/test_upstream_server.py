"""What an agent keeps ready for a server behind it."""

import asyncio
from types import SimpleNamespace

import pytest

from vnagent.client import upstream_server as peers
from vnagent.client.upstream_server import Peer


class Channel:
    """A connection that waits for its use, or was let go."""

    is_quiet = True
    is_open = True

    def abort(self) -> None:
        """Be let go."""
        self.is_open = False


async def test_what_waits_is_dropped_at_its_time(monkeypatch):
    """At the very moment too, as nobody looks again before as much time has passed once more."""
    peer, old, new = Peer(None, None), Channel(), Channel()
    monkeypatch.setattr(
        peers.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: 1000.0)
    )
    peer._warm.append(peers._Warm(old, 1000.0 - peers.WARM_SECONDS))
    peer._warm.append(peers._Warm(new, 1000.001 - peers.WARM_SECONDS))
    peer._drop_old()
    assert (old.is_open, new.is_open) == (False, True)


class Denying(Channel):
    """A connection to a server that knows nobody."""

    def write(self, *_: bytes) -> None:
        """Take a request."""

    async def read_until(self, _mark: bytes, _limit: int) -> bytes:
        """Refuse it."""
        return b"HTTP/1.1 401 Unauthorized\r\n\r\n"


async def test_a_refused_connection_is_let_go_before_another_credential_is_looked_for():
    """The caller may go away meanwhile, and nobody else knows of the connection."""
    channel, looking = Denying(), asyncio.Event()

    async def dial() -> Channel:
        return channel

    async def renew() -> bool:
        looking.set()
        await asyncio.sleep(60)
        return False

    origin = SimpleNamespace(
        dial=dial, renew_credential=renew, remember=id, write_request=lambda *_: b""
    )
    opening = asyncio.ensure_future(Peer(origin, None).open("GET", "/", []))
    await looking.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not channel.is_open
