"""Places of connections whose client is not identified yet. Pure.

The module must not know sockets or clocks. Times are seconds of any one clock. Hazard: if all
places are in use, the address with the most connections must lose one. Otherwise silent clients
with enough addresses would keep all places, and the next tenant would find none. Hazard: a tenant
in the middle of its handshake must keep its place. Addresses from which a tenant was let in lately
therefore lose a place last.
"""

from collections.abc import Callable
from dataclasses import dataclass

MAX_PENDING_PER_SOURCE = 32
MAX_PENDING = 256
"""Limit of connections in their handshake, before their tenant is known."""
MIN_PENDING_SECONDS = 1.0
"""Time in seconds for which a handshake keeps a contested place. It needs milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingHandshake:
    """A connection from an address, since a time."""

    source: str
    since: float


class PendingHandshakes:
    """The pending handshakes by address, the oldest of each address first."""

    def __init__(
        self, *, per_source: int = MAX_PENDING_PER_SOURCE, total: int = MAX_PENDING
    ) -> None:
        self._per_source = per_source
        self._total = total
        self._by_source: dict[str, dict[PendingHandshake, None]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """The number of pending handshakes."""
        return self._count

    def is_full(self, source: str) -> bool:
        """Return whether one more connection from this address exceeds a limit."""
        return (
            len(self._by_source.get(source, ())) >= self._per_source or self._count >= self._total
        )

    def add(self, handshake: PendingHandshake) -> None:
        """Assign a place."""
        self._by_source.setdefault(handshake.source, {})[handshake] = None
        self._count += 1

    def remove(self, handshake: PendingHandshake) -> None:
        """Release a place, if it is still assigned."""
        of = self._by_source.get(handshake.source, {})
        if handshake in of:
            del of[handshake]
            self._count -= 1
            if not of:
                del self._by_source[handshake.source]

    def choose_victim(
        self, newcomer: PendingHandshake, is_welcome: Callable[[str], bool]
    ) -> PendingHandshake | None:
        """Return the handshake that loses its place to a newcomer, None to refuse the newcomer.

        `is_welcome` returns whether a tenant was let in from an address lately.
        """
        own = self._by_source.get(newcomer.source, {})
        is_own_limit = len(own) >= self._per_source
        unwelcome = [of for source, of in self._by_source.items() if not is_welcome(source)]
        crowd = (
            own if is_own_limit else max(unwelcome or self._by_source.values(), key=_rank_source)
        )
        oldest = next(iter(crowd))
        has_waited = newcomer.since - oldest.since >= MIN_PENDING_SECONDS
        has_more = not is_own_limit and len(crowd) >= len(own) + 2
        # A newcomer whose address has many silent connections is not the next call of a tenant.
        is_wanted = bool(unwelcome) and len(own) <= len(crowd) and is_welcome(newcomer.source)
        return oldest if has_waited or has_more or (is_wanted and not is_own_limit) else None


def _rank_source(of: dict[PendingHandshake, None]) -> tuple[int, float]:
    """Return the sort key of an address: number of handshakes, then age of the oldest."""
    return len(of), -next(iter(of)).since
