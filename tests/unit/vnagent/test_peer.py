"""What an agent keeps ready for a server behind it."""

from types import SimpleNamespace

from vnagent import peer as peers
from vnagent.peer import Peer


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
