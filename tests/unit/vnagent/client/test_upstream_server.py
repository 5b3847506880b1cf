"""Connections that an agent keeps ready for a server behind it."""

import asyncio
from types import SimpleNamespace

import pytest

from vnagent.client import upstream_server as peers
from vnagent.client.upstream_server import UpstreamServer


class FakeTlsStream:
    """A connection that waits for its use, or was let go."""

    is_idle = True
    is_open = True

    def abort(self) -> None:
        """Be let go."""
        self.is_open = False


async def test_what_waits_is_dropped_at_its_time(monkeypatch):
    """At the very moment too, as no one looks again before as much time has passed once more."""
    peer, old, new = UpstreamServer(None, None), FakeTlsStream(), FakeTlsStream()
    monkeypatch.setattr(
        peers.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: 1000.0)
    )
    peer._warm.append(peers._WarmConnection(old, 1000.0 - peers.WARM_SECONDS))
    peer._warm.append(peers._WarmConnection(new, 1000.001 - peers.WARM_SECONDS))
    peer._close_old()
    assert (old.is_open, new.is_open) == (False, True)


class DenyingStream(FakeTlsStream):
    """A connection to a server that knows no one."""

    def write(self, *_: bytes) -> None:
        """Take a request."""

    async def read_until(self, _mark: bytes, _limit: int) -> bytes:
        """Refuse it."""
        return b"HTTP/1.1 401 Unauthorized\r\n\r\n"


async def test_a_refused_connection_is_let_go_before_another_credential_is_looked_for():
    """The caller may go away meanwhile, and no one else knows of the connection."""
    channel, looking = DenyingStream(), asyncio.Event()

    async def dial() -> FakeTlsStream:
        return channel

    async def renew() -> bool:
        looking.set()
        await asyncio.sleep(60)
        return False

    origin = SimpleNamespace(
        connect=dial, renew_credential=renew, remember_session=id, write_request=lambda *_: b""
    )
    opening = asyncio.ensure_future(UpstreamServer(origin, None).open("GET", "/", []))
    await looking.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not channel.is_open
