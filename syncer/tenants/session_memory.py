"""What one key has to tell another: who waits for whom, and what nobody needs since when.

Owns a tenant's small memories between two reconciles. Must not decide. All of it is rebuilt after a
restart by the keys themselves. Hazard: whoever waits must be woken; a dependency that never changes
is looked at again by the key's own growing delay. Every memory has an end: a tenant could fill it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum, auto

from kubeio import Object
from kubeio.cache.store import Key as Place
from syncer.model.keys import Key
from syncer.rules.pods.token_specs import TokenSpec

LINGER_SECONDS = 30.0
"""How long configuration, tokens and nodes are kept after the last pod that needs them."""
MAX_PENDING_EVENTS = 1000
MAX_TOLD_EVENTS = 4096
MAX_WAITERS = 16_384
"""Keys that wait for others. Whoever is forgotten is tried again by its own growing delay."""
MAX_UNUSED = 16_384
MAX_LOST_TWINS = 16_384
MAX_OUT_OF_SIGHT = 16_384
LEFT_OUT_SECONDS = 3600.0
"""How long a tenant's API is believed to leave a field out; its version may change."""


class _End(Enum):
    """What is known of a twin that is gone."""

    ABSENT = auto()
    DELETED = auto()
    """It was seen to be on its way out."""
    SEEN = auto()
    """So it was, and an event showed the very end."""


class Reminders:
    """The memories of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.linger_seconds = LINGER_SECONDS
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
        self._waiting: OrderedDict[Key, set[Key]] = OrderedDict()
        self._waiters = 0
        self._unused: OrderedDict[Key, float] = OrderedDict()
        self._lost_twins: OrderedDict[str, _End] = OrderedDict()
        self._out_of_sight: OrderedDict[Key, Place] = OrderedDict()
        self._told: OrderedDict[Key, Object] = OrderedDict()
        self._left_out: dict[str, float] = {}

    def gone(self, key: Key) -> None:
        """Forget what is remembered of a pod by its name: there is none now, or another one."""
        self.compared.pop(key, None)
        self.nodes.pop(key, None)

    def wait_for(self, dependency: Key, key: Key) -> None:
        """Have a key worked on again when something happens to another one."""
        waiters = self._waiting.setdefault(dependency, set())
        self._waiting.move_to_end(dependency)
        self._waiters += key not in waiters
        waiters.add(key)
        while self._waiters > MAX_WAITERS and len(self._waiting) > 1:
            self._waiters -= len(self._waiting.popitem(last=False)[1])
        if self._waiters > MAX_WAITERS:
            waiters.pop()
            self._waiters -= 1

    def waiting_for(self, dependency: Key) -> set[Key]:
        """Return, and forget, the keys that wait for one."""
        waiters = self._waiting.pop(dependency, set())
        self._waiters -= len(waiters)
        return waiters

    def left_to_linger(self, key: Key, seconds: float | None = None) -> float:
        """Return how long something that nobody needs any more is kept; 0 or less: it may go.

        The last pod of a rollout or a CronJob goes a moment before the next one comes. `seconds`
        stands for another time than the usual one.
        """
        now = self._clock()
        length = self.linger_seconds if seconds is None else seconds
        left = self._unused.setdefault(key, now) + length - now
        if left <= 0:
            self._unused.pop(key, None)
        elif len(self._unused) > MAX_UNUSED:
            self._unused.popitem(last=False)  # it lingers anew when it is looked at
        return left

    def needed(self, key: Key) -> None:
        """Take note that something is needed: its lingering starts anew when it is not."""
        self._unused.pop(key, None)

    def left_to_renew(self, seconds: float) -> float:
        """Return after how long the node's lease is to be renewed, if every so many seconds."""
        return self._renewed_at + seconds - self._clock()

    def renewed(self) -> None:
        """Take note that the node's lease is renewed now, or at least tried to be."""
        self._renewed_at = self._clock()

    def saw_bound_twin_end(self, uid: str, *, was_deleting: bool, is_certain: bool) -> None:
        """Take note that the bound twin of a tenant pod with this UID is gone."""
        end = _End.SEEN if is_certain else _End.DELETED
        self._lost_twins[uid] = end if was_deleting else _End.ABSENT
        if len(self._lost_twins) > MAX_LOST_TWINS:
            self._lost_twins.popitem(last=False)

    def had_bound_twin(self, uid: str) -> bool:
        """Tell whether a tenant pod's twin was seen bound, and is gone."""
        return uid in self._lost_twins

    def saw_twin_deleted(self, uid: str) -> bool:
        """Tell whether that twin was seen to be on its way out before it was gone."""
        return self._lost_twins.get(uid, _End.ABSENT) is not _End.ABSENT

    def saw_twin_end(self, uid: str) -> bool:
        """Tell whether a running watch showed the end of that twin, its containers' with it."""
        return self._lost_twins.get(uid) is _End.SEEN

    def lost_sight_of(self, key: Key, place: Place) -> None:
        """Take note that a twin vanished without our doing: deleted, or without its labels."""
        self._out_of_sight[key] = place
        if len(self._out_of_sight) > MAX_OUT_OF_SIGHT:
            self._out_of_sight.popitem(last=False)

    def is_in_sight(self, key: Key) -> None:
        """Take note that what a key has below is known again."""
        self._out_of_sight.pop(key, None)

    def lost_from_sight(self, key: Key) -> Place | None:
        """Return where the vanished twin of a key was; None when there is none."""
        return self._out_of_sight.get(key)

    def out_of_sight(self) -> list[Key]:
        """Return the keys whose twins vanished."""
        return list(self._out_of_sight)

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
