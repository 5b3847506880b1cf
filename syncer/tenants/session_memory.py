"""Memory of one session between reconciles: Events, tokens, nodes and the node's lease.

Waiting keys, grace periods and lost twins are modules of their own. Must not decide. The keys
rebuild all of it after a restart. Hazard: every memory must be bounded. Otherwise a tenant fills
it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable

from kubeio import Object
from syncer.model.keys import Key
from syncer.rules.pods.token_specs import TokenSpec

MAX_PENDING_EVENTS = 1000
MAX_TOLD_EVENTS = 4096
LEFT_OUT_SECONDS = 3600.0
"""Time in seconds for which a field counts as unknown to a tenant's API. The API's version may
change.
"""


class Reminders:
    """The memories of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.events: dict[Key, Object] = {}
        """Super Events that wait to be synced back. Bounded, with the newest state of each."""
        self.tokens: dict[Key, TokenSpec] = {}
        """Token Secrets that pods wait for."""
        self.nodes: dict[Key, str] = {}
        """Nodes that pods will be bound to, by key of the pod."""
        self.making_nodes: dict[str, asyncio.Event] = {}
        """Nodes that a reconcile creates at this moment. Each event is set at its end."""
        self.made_nodes: set[str] = set()
        """Nodes that were created completely. The entry applies until the cache shows the node."""
        self.compared: dict[Key, tuple[int, int]] = {}
        """Running pods that were found in sync in the super cluster, with the revisions of both
        sides.
        """
        self._clock = clock
        self._renewed_at = float("-inf")
        self._events_due: dict[Key, float] = {}
        self._told: OrderedDict[Key, Object] = OrderedDict()
        self._left_out: dict[str, float] = {}

    def gone(self, key: Key) -> None:
        """Forget what is remembered of a pod by its name.

        No pod or a different pod has the name now.
        """
        self.compared.pop(key, None)
        self.nodes.pop(key, None)

    def left_to_renew(self, seconds: float) -> float:
        """Return the seconds until the next lease renewal. `seconds` is the interval."""
        return self._renewed_at + seconds - self._clock()

    def renewed(self) -> None:
        """Record that the node's lease is renewed now, or that a renewal was tried."""
        self._renewed_at = self._clock()

    def saw_left_out(self, fields: Iterable[str]) -> None:
        """Record fields of a node's status that the tenant's API does not know."""
        self._left_out.update(dict.fromkeys(fields, self._clock() + LEFT_OUT_SECONDS))

    def is_left_out(self, field: str) -> bool:
        """Return True if the tenant's API does not know a field of a node's status."""
        return self._left_out.get(field, 0.0) > self._clock()

    def queue_event(self, key: Key, event: Object) -> bool:
        """Keep an Event until its key is reconciled. Returns False if too many Events wait."""
        if key not in self.events and len(self.events) >= MAX_PENDING_EVENTS:
            return False
        self.events[key] = event
        return True

    def event_may_wait(self, key: Key, seconds: float) -> float:
        """Return the seconds that an Event may still wait, of `seconds` since the first call."""
        now = self._clock()
        return self._events_due.setdefault(key, now + seconds) - now

    def event_done(self, key: Key) -> None:
        """Forget an Event that was posted, or that cannot be."""
        self.events.pop(key, None)
        self._events_due.pop(key, None)

    def has_told(self, key: Key) -> bool:
        """Return True if a super Event was synced back, in any state."""
        return key in self._told

    def was_told(self, key: Key, state: Object) -> bool:
        """Return True if a super Event was synced back in this state."""
        return self._told.get(key) == state

    def told(self, key: Key, state: Object) -> None:
        """Remember, within a bound, the state in which a super Event was synced back."""
        self._told[key] = state
        self._told.move_to_end(key)
        if len(self._told) > MAX_TOLD_EVENTS:
            self._told.popitem(last=False)
