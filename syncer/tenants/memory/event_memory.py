"""Memory of one session about the Events of its super cluster.

Owns the Events that wait to be synced back, and the states that were synced back. Must not decide.
Hazard: both must be bounded. Otherwise a tenant fills them.
"""

from collections import OrderedDict
from collections.abc import Callable

from kubeio import Object
from syncer.model.keys import Key

MAX_PENDING_EVENTS = 1000
MAX_WRITTEN_EVENTS = 4096


class EventMemory:
    """Memory about the Events of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pending: dict[Key, Object] = {}
        self._deadlines: dict[Key, float] = {}
        self._written: OrderedDict[Key, Object] = OrderedDict()

    def queue_event(self, key: Key, event: Object) -> bool:
        """Keep an Event until its key is reconciled. Returns False if too many Events wait."""
        if key not in self._pending and len(self._pending) >= MAX_PENDING_EVENTS:
            return False
        self._pending[key] = event
        return True

    def get_pending(self, key: Key) -> Object | None:
        """Return the newest state of a waiting Event, or None."""
        return self._pending.get(key)

    def get_event_wait(self, key: Key, seconds: float) -> float:
        """Return the seconds that an Event may still wait, of `seconds` since the first call."""
        now = self._clock()
        return self._deadlines.setdefault(key, now + seconds) - now

    def forget_event(self, key: Key) -> None:
        """Forget an Event that was posted, or that cannot be."""
        self._pending.pop(key, None)
        self._deadlines.pop(key, None)

    def has_written_event(self, key: Key) -> bool:
        """Return True if a super Event was synced back, in any state."""
        return key in self._written

    def was_state_written(self, key: Key, state: Object) -> bool:
        """Return True if a super Event was synced back in this state."""
        return self._written.get(key) == state

    def record_written_event(self, key: Key, state: Object) -> None:
        """Remember, within a bound, the state in which a super Event was synced back."""
        self._written[key] = state
        self._written.move_to_end(key)
        if len(self._written) > MAX_WRITTEN_EVENTS:
            self._written.popitem(last=False)
