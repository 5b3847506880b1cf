"""Who has been turned away over and over, and is for a while turned away unheard. Pure.

Must not know sockets or clocks; times are seconds of any one clock. Hazards: what is remembered of
those whom nobody knows must not grow with their number, so only the latest are; and an address may
be several callers', so one from which a tenant has been let in lately is never shut.
"""

from collections import OrderedDict
from dataclasses import dataclass

from vnagent.limits.token_bucket import Bucket

REMEMBERED = 1024
REFUSED_AT_ONCE = 20
REFUSED_SECONDS = 1.0
"""Between two handshakes of an address that does nothing but fail."""
TOLD_AT_ONCE = 64
TOLD_SECONDS = 0.2
"""Between two answers to a tenant that goes on past its limit of streams, or its turn."""
WELCOME_SECONDS = 600.0
"""For which a tenant that was let in keeps its address open."""


@dataclass(slots=True)
class _Caller:
    bucket: Bucket
    welcome_until: float = float("-inf")
    is_told: bool = False
    """Whether somebody was told of it since it was last at peace."""


class Rebuffs:
    """Counts refusals of callers, whatever tells them apart, and says whom not to hear."""

    def __init__(self, burst: int, seconds: float, *, remembered: int = REMEMBERED) -> None:
        """Hear a caller until it was refused `burst` times, then once each `seconds`."""
        self._burst = burst
        self._seconds = seconds
        self._remembered = remembered
        self._callers: OrderedDict[str, _Caller] = OrderedDict()

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._callers)

    def is_shut(self, who: str, now: float) -> bool:
        """Tell whether a caller is not to be heard now."""
        caller = self._callers.get(who)
        return caller is not None and caller.welcome_until < now and caller.bucket.pause(now) > 0

    def is_welcome(self, who: str, now: float) -> bool:
        """Tell whether a tenant was let in lately."""
        caller = self._callers.get(who)
        return caller is not None and caller.welcome_until >= now

    def count(self, who: str, now: float) -> bool:
        """Take in that a caller was refused; tell whether that has shut it, once in a while."""
        caller = self._caller(who)
        if caller.bucket.is_full(now):
            caller.is_told = False
        if not caller.bucket.pause(now):  # else it is one of those that had come in together
            caller.bucket.take(now)
        if caller.is_told or not self.is_shut(who, now):
            return False
        caller.is_told = True
        return True

    def welcome(self, who: str, now: float) -> None:
        """Take in that a tenant was let in."""
        self._caller(who).welcome_until = now + WELCOME_SECONDS

    def _caller(self, who: str) -> _Caller:
        found = self._callers.get(who)
        if found is None:
            found = self._callers[who] = _Caller(Bucket(self._burst, self._seconds))
        self._callers.move_to_end(who)
        if len(self._callers) > self._remembered:
            self._callers.popitem(last=False)
        return found
