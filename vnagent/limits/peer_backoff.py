"""Backoff of callers that were refused repeatedly. Pure.

The module must not know sockets or clocks. Times are seconds of any one clock. Hazard: the memory
of unknown callers must not grow with their number, so only the latest are kept. Otherwise unknown
callers exhaust memory. Hazard: an address may be shared, so an address from which a tenant was let
in lately must never be shut. Otherwise one caller shuts out another.
"""

from collections import OrderedDict
from dataclasses import dataclass

from vnagent.limits.token_bucket import TokenBucket

MAX_REMEMBERED_PEERS = 1024
REFUSAL_BURST = 20
REFUSAL_INTERVAL_SECONDS = 1.0
"""Interval in seconds between two handshakes of an address that only fails."""
FLOOD_BURST = 64
FLOOD_INTERVAL_SECONDS = 0.2
"""Interval in seconds between two answers to a tenant that exceeds its limit of streams or its
rate.
"""
TRUSTED_SECONDS = 600.0
"""Time in seconds for which a tenant that was let in keeps its address open."""


@dataclass(slots=True)
class _RefusedPeer:
    bucket: TokenBucket
    trusted_until: float = float("-inf")
    is_reported: bool = False
    """Whether the shut was reported since the bucket was last full."""


class PeerBackoff:
    """Counter of refusals by caller key. It decides which callers are shut."""

    def __init__(
        self, burst: int, seconds: float, *, remembered: int = MAX_REMEMBERED_PEERS
    ) -> None:
        """Serve a caller until it was refused `burst` times, then once each `seconds`."""
        self._burst = burst
        self._seconds = seconds
        self._remembered = remembered
        self._peers: OrderedDict[str, _RefusedPeer] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of callers in memory."""
        return len(self._peers)

    def is_banned(self, peer: str, now: float) -> bool:
        """Return whether a caller is shut now."""
        caller = self._peers.get(peer)
        return caller is not None and caller.trusted_until < now and caller.bucket.get_wait(now) > 0

    def is_trusted(self, peer: str, now: float) -> bool:
        """Return whether a tenant was let in lately."""
        caller = self._peers.get(peer)
        return caller is not None and caller.trusted_until >= now

    def count_refusal(self, peer: str, now: float) -> bool:
        """Count a refusal. Return whether it has shut the caller, once per shut."""
        caller = self._get_peer(peer)
        if caller.bucket.is_full(now):
            caller.is_reported = False
        # otherwise the call is one of several that arrived together
        if not caller.bucket.get_wait(now):
            caller.bucket.take(now)
        if caller.is_reported or not self.is_banned(peer, now):
            return False
        caller.is_reported = True
        return True

    def trust(self, peer: str, now: float) -> None:
        """Record that a tenant was let in."""
        self._get_peer(peer).trusted_until = now + TRUSTED_SECONDS

    def _get_peer(self, peer: str) -> _RefusedPeer:
        found = self._peers.get(peer)
        if found is None:
            found = self._peers[peer] = _RefusedPeer(TokenBucket(self._burst, self._seconds))
        self._peers.move_to_end(peer)
        if len(self._peers) > self._remembered:
            self._peers.popitem(last=False)
        return found
