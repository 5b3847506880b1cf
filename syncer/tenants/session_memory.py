"""Memory of one session between two reconciles: Events, tokens, nodes and the node's lease.

Owns these small memories. Waiting keys, grace periods and lost twins are modules of their own. Must
not decide. The keys rebuild all of it after a restart. Hazard: every memory must be bounded.
Otherwise a tenant fills it.
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
"""How long a tenant's API is believed to leave a field out; its version may change."""


class Reminders:
    """The memories of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.events: dict[Key, Object] = {}
        """Super Events on their way up; bounded, the newest state of each."""
        self.tokens: dict[Key, TokenSpec] = {}
        """Token Secrets that pods wait for."""
        self.nodes: dict[Key, str] = {}
        """Nodes that pods are about to be bound to, by the pod's key."""
        self.making_nodes: dict[str, asyncio.Event] = {}
        """Nodes that somebody looks after at this moment; each is set at the end of it."""
        self.made_nodes: set[str] = set()
        """Nodes that were made whole; what they are counts until the cache shows it."""
        self.compared: dict[Key, tuple[int, int]] = {}
        """Running pods that were found in step below, by what both sides said then."""
        self._clock = clock
        self._renewed_at = float("-inf")
        self._events_due: dict[Key, float] = {}
        self._told: OrderedDict[Key, Object] = OrderedDict()
        self._left_out: dict[str, float] = {}

    def gone(self, key: Key) -> None:
        """Forget what is remembered of a pod by its name: there is none now, or another one."""
        self.compared.pop(key, None)
        self.nodes.pop(key, None)

    def left_to_renew(self, seconds: float) -> float:
        """Return after how long the node's lease is to be renewed, if every so many seconds."""
        return self._renewed_at + seconds - self._clock()

    def renewed(self) -> None:
        """Take note that the node's lease is renewed now, or at least tried to be."""
        self._renewed_at = self._clock()

    def saw_left_out(self, fields: Iterable[str]) -> None:
        """Take note of fields of a node's status that the tenant's API does not know."""
        self._left_out.update(dict.fromkeys(fields, self._clock() + LEFT_OUT_SECONDS))

    def is_left_out(self, field: str) -> bool:
        """Tell whether the tenant's API does not know a field of a node's status."""
        return self._left_out.get(field, 0.0) > self._clock()

    def queue_event(self, key: Key, event: Object) -> bool:
        """Keep an Event until its key is worked on; False when too many wait."""
        if key not in self.events and len(self.events) >= MAX_PENDING_EVENTS:
            return False
        self.events[key] = event
        return True

    def event_may_wait(self, key: Key, seconds: float) -> float:
        """Return for how long an Event may still wait, so many from the first time on."""
        now = self._clock()
        return self._events_due.setdefault(key, now + seconds) - now

    def event_done(self, key: Key) -> None:
        """Forget an Event that was told, or that cannot be."""
        self.events.pop(key, None)
        self._events_due.pop(key, None)

    def has_told(self, key: Key) -> bool:
        """Tell whether a super Event has gone up, in whatever state."""
        return key in self._told

    def was_told(self, key: Key, state: Object) -> bool:
        """Tell whether a super Event has gone up in this very state."""
        return self._told.get(key) == state

    def told(self, key: Key, state: Object) -> None:
        """Remember, for a while, in which state a super Event has gone up."""
        self._told[key] = state
        self._told.move_to_end(key)
        if len(self._told) > MAX_TOLD_EVENTS:
            self._told.popitem(last=False)
