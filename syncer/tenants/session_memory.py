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
MAX_WRITTEN_EVENTS = 4096
UNKNOWN_FIELD_SECONDS = 3600.0
"""Time in seconds for which a field counts as unknown to a tenant's API. The API's version may
change.
"""


class SessionMemory:
    """The memories of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.pending_events: dict[Key, Object] = {}
        """Super Events that wait to be synced back. Bounded, with the newest state of each."""
        self.tokens: dict[Key, TokenSpec] = {}
        """Token Secrets that pods wait for."""
        self.nodes: dict[Key, str] = {}
        """Nodes that pods will be bound to, by key of the pod."""
        self.nodes_in_creation: dict[str, asyncio.Event] = {}
        """Nodes that a reconcile creates at this moment. Each event is set at its end."""
        self.created_nodes: set[str] = set()
        """Nodes that were created completely. The entry applies until the cache shows the node."""
        self.compared: dict[Key, tuple[int, int]] = {}
        """Running pods that were found in sync in the super cluster, with the revisions of both
        sides.
        """
        self._clock = clock
        self._renewed_at = float("-inf")
        self._event_deadlines: dict[Key, float] = {}
        self._written_events: OrderedDict[Key, Object] = OrderedDict()
        self._unknown_fields: dict[str, float] = {}

    def forget_pod(self, key: Key) -> None:
        """Forget what is remembered of a pod by its name.

        No pod or a different pod has the name now.
        """
        self.compared.pop(key, None)
        self.nodes.pop(key, None)

    def get_seconds_to_renewal(self, seconds: float) -> float:
        """Return the seconds until the next lease renewal. `seconds` is the interval."""
        return self._renewed_at + seconds - self._clock()

    def record_lease_renewal(self) -> None:
        """Record that the node's lease is renewed now, or that a renewal was tried."""
        self._renewed_at = self._clock()

    def record_unknown_fields(self, fields: Iterable[str]) -> None:
        """Record fields of a node's status that the tenant's API does not know."""
        self._unknown_fields.update(dict.fromkeys(fields, self._clock() + UNKNOWN_FIELD_SECONDS))

    def is_field_unknown(self, field: str) -> bool:
        """Return True if the tenant's API does not know a field of a node's status."""
        return self._unknown_fields.get(field, 0.0) > self._clock()

    def queue_event(self, key: Key, event: Object) -> bool:
        """Keep an Event until its key is reconciled. Returns False if too many Events wait."""
        if key not in self.pending_events and len(self.pending_events) >= MAX_PENDING_EVENTS:
            return False
        self.pending_events[key] = event
        return True

    def get_event_wait(self, key: Key, seconds: float) -> float:
        """Return the seconds that an Event may still wait, of `seconds` since the first call."""
        now = self._clock()
        return self._event_deadlines.setdefault(key, now + seconds) - now

    def forget_event(self, key: Key) -> None:
        """Forget an Event that was posted, or that cannot be."""
        self.pending_events.pop(key, None)
        self._event_deadlines.pop(key, None)

    def has_written_event(self, key: Key) -> bool:
        """Return True if a super Event was synced back, in any state."""
        return key in self._written_events

    def was_state_written(self, key: Key, state: Object) -> bool:
        """Return True if a super Event was synced back in this state."""
        return self._written_events.get(key) == state

    def record_written_event(self, key: Key, state: Object) -> None:
        """Remember, within a bound, the state in which a super Event was synced back."""
        self._written_events[key] = state
        self._written_events.move_to_end(key)
        if len(self._written_events) > MAX_WRITTEN_EVENTS:
            self._written_events.popitem(last=False)
