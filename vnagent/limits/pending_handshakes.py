"""Who has connected and not said who he is, and whose place a newcomer is given; pure.

Must not know sockets or clocks; times are seconds of any one clock. Hazards: whoever says nothing
holds a place, so with enough addresses all of them, and the next tenant would find none: when all
are taken, whoever holds the most loses one. And a tenant in the middle of its handshake must not be
the one, so addresses from which a tenant was let in lately come last.
"""

from collections.abc import Callable
from dataclasses import dataclass

STRANGERS_PER_SOURCE = 32
STRANGERS = 256
"""Connections in their handshake, whose tenant is not known yet."""
PATIENCE_SECONDS = 1.0
"""For which a stranger keeps a place that others want: a handshake takes milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Stranger:
    """A connection from an address, since a time."""

    source: str
    since: float


class Strangers:
    """The places of strangers, by address, the oldest of each first."""

    def __init__(self, *, per_source: int = STRANGERS_PER_SOURCE, total: int = STRANGERS) -> None:
        self._per_source = per_source
        self._total = total
        self._of: dict[str, dict[Stranger, None]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def is_full(self, source: str) -> bool:
        """Tell whether one more from this address is one too many."""
        return len(self._of.get(source, ())) >= self._per_source or self._count >= self._total

    def add(self, stranger: Stranger) -> None:
        """Give a place."""
        self._of.setdefault(stranger.source, {})[stranger] = None
        self._count += 1

    def remove(self, stranger: Stranger) -> None:
        """Take a place back, if it is still held."""
        of = self._of.get(stranger.source, {})
        if stranger in of:
            del of[stranger]
            self._count -= 1
            if not of:
                del self._of[stranger.source]

    def in_the_way(self, newcomer: Stranger, is_welcome: Callable[[str], bool]) -> Stranger | None:
        """Return whose place a newcomer is given where it is full; None: it is turned away.

        `is_welcome` tells whether a tenant was let in from an address lately.
        """
        own = self._of.get(newcomer.source, {})
        is_own_limit = len(own) >= self._per_source
        unwelcome = [of for source, of in self._of.items() if not is_welcome(source)]
        crowd = own if is_own_limit else max(unwelcome or self._of.values(), key=_weight)
        oldest = next(iter(crowd))
        has_waited = newcomer.since - oldest.since >= PATIENCE_SECONDS
        has_more = not is_own_limit and len(crowd) >= len(own) + 2
        # One of many of its own that say nothing is no tenant's next call.
        is_wanted = bool(unwelcome) and len(own) <= len(crowd) and is_welcome(newcomer.source)
        return oldest if has_waited or has_more or (is_wanted and not is_own_limit) else None


def _weight(of: dict[Stranger, None]) -> tuple[int, float]:
    """Order crowds by their number, and by how long their oldest has been there."""
    return len(of), -next(iter(of)).since
