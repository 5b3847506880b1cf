"""Backoff of callers that were refused repeatedly. Pure.

The module must not know sockets or clocks. Times are seconds of any one clock. Hazard: the memory
of unknown callers must not grow with their number, so only the latest are kept. Otherwise unknown
callers exhaust memory. Hazard: an address may be shared, so an address from which a tenant was let
in lately must never be shut. Otherwise one caller shuts out another.
"""

from collections import OrderedDict
from dataclasses import dataclass

from vnagent.limits.token_bucket import Bucket

REMEMBERED = 1024
REFUSED_AT_ONCE = 20
REFUSED_SECONDS = 1.0
"""Interval in seconds between two handshakes of an address that only fails."""
TOLD_AT_ONCE = 64
TOLD_SECONDS = 0.2
"""Interval in seconds between two answers to a tenant that exceeds its limit of streams or its
rate.
"""
WELCOME_SECONDS = 600.0
"""Time in seconds for which a tenant that was let in keeps its address open."""


@dataclass(slots=True)
class _Caller:
    bucket: Bucket
    welcome_until: float = float("-inf")
    is_told: bool = False
    """Whether the shut was reported since the bucket was last full."""


class Rebuffs:
    """Counter of refusals by caller key. It decides which callers are shut."""

    def __init__(self, burst: int, seconds: float, *, remembered: int = REMEMBERED) -> None:
        """Serve a caller until it was refused `burst` times, then once each `seconds`."""
        self._burst = burst
        self._seconds = seconds
        self._remembered = remembered
        self._callers: OrderedDict[str, _Caller] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of callers in memory."""
        return len(self._callers)

    def is_shut(self, who: str, now: float) -> bool:
        """Return whether a caller is shut now."""
        caller = self._callers.get(who)
        return caller is not None and caller.welcome_until < now and caller.bucket.pause(now) > 0

    def is_welcome(self, who: str, now: float) -> bool:
        """Return whether a tenant was let in lately."""
        caller = self._callers.get(who)
        return caller is not None and caller.welcome_until >= now

    def count(self, who: str, now: float) -> bool:
        """Count a refusal. Return whether it has shut the caller, once per shut."""
        caller = self._caller(who)
        if caller.bucket.is_full(now):
            caller.is_told = False
        # otherwise the call is one of several that arrived together
        if not caller.bucket.pause(now):
            caller.bucket.take(now)
        if caller.is_told or not self.is_shut(who, now):
            return False
        caller.is_told = True
        return True

    def welcome(self, who: str, now: float) -> None:
        """Record that a tenant was let in."""
        self._caller(who).welcome_until = now + WELCOME_SECONDS

    def _caller(self, who: str) -> _Caller:
        found = self._callers.get(who)
        if found is None:
            found = self._callers[who] = _Caller(Bucket(self._burst, self._seconds))
        self._callers.move_to_end(who)
        if len(self._callers) > self._remembered:
            self._callers.popitem(last=False)
        return found
