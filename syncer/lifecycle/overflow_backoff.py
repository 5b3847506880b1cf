"""Pauses of tenants that were disconnected because they use too much memory.

Owns the length of each pause, and its message. A tenant returns by itself, and stays away longer
each time that it is over its limits again. Must not know connections.
"""

from dataclasses import dataclass

from kubeio.backoff import Backoff
from kubeio.cache.cache_budget import CacheBudget, CacheOverflow
from syncer.safety.cache_limits import TenantLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowPause:
    """A pause and its reason."""

    overflow: CacheOverflow
    seconds: float

    def describe(self) -> str:
        """Return the message of the condition."""
        message = describe_overflow(self.overflow)
        return f"{message} The next attempt is in {self.seconds:.0f} s."


def describe_overflow(overflow: CacheOverflow) -> str:
    """Return what happened and what the tenant can do."""
    return (
        f"The tenant is too large, so nothing is synced. {overflow.describe()}. Delete"
        " objects in the tenant."
    )


class OverflowBackoff:
    """Tenants that are over their limits, with their pauses."""

    def __init__(self, limits: TenantLimits) -> None:
        self.tenants: set[str] = set()
        """UIDs of the tenants that were over their limits when they last disconnected."""
        self._limits = limits
        self._backoffs: dict[str, Backoff] = {}
        self._overflows: dict[str, CacheOverflow] = {}
        self._last_pause_at: dict[str, float] = {}

    def record_end(self, uid: str, budget: CacheBudget) -> None:
        """Record the end of a connection. Its budget may have been exceeded or not."""
        if budget.overflow is not None:
            self._overflows[uid] = budget.overflow

    def begin_pause(self, uid: str, now: float) -> OverflowPause | None:
        """Return the pause of a tenant whose last connection exceeded its limits, or None.

        `now` is the monotonic time in seconds. The first pause after a long time is short again.
        """
        overflow = self._overflows.pop(uid, None)
        if overflow is None:
            self.tenants.discard(uid)
            return None
        limits = self._limits
        if now - self._last_pause_at.get(uid, now) > 2 * limits.away_max_seconds:
            self._backoffs.pop(uid, None)
        backoff = self._backoffs.setdefault(
            uid, Backoff(base=limits.away_base_seconds, ceiling=limits.away_max_seconds)
        )
        self.tenants.add(uid)
        self._last_pause_at[uid] = now
        return OverflowPause(overflow=overflow, seconds=backoff.next())

    def forget(self, uid: str) -> None:
        """Forget a tenant that no longer exists."""
        self.tenants.discard(uid)
        for known in (self._backoffs, self._overflows, self._last_pause_at):
            known.pop(uid, None)
