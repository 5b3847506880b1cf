"""What one key has to tell another: who waits for whom, and what nobody needs since when.

Owns a tenant's small memories between two reconciles. Must not decide. All of it is rebuilt after a
restart by the keys themselves. Hazard: whoever waits must be woken; a dependency that never changes
is looked at again by the key's own growing delay.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable

from kubeio import Object
from syncer.keys import Key
from syncer.special.token_specs import TokenSpec

LINGER_SECONDS = 30.0
"""How long configuration, tokens and nodes are kept after the last pod that needs them."""
MAX_PENDING_EVENTS = 1000
MAX_TOLD_EVENTS = 4096


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
        self._clock = clock
        self._waiting: defaultdict[Key, set[Key]] = defaultdict(set)
        self._unused: dict[Key, float] = {}
        self._told: OrderedDict[Key, None] = OrderedDict()

    def wait_for(self, dependency: Key, key: Key) -> None:
        """Have a key worked on again when something happens to another one."""
        self._waiting[dependency].add(key)

    def waiting_for(self, dependency: Key) -> set[Key]:
        """Return, and forget, the keys that wait for one."""
        return self._waiting.pop(dependency, set())

    def left_to_linger(self, key: Key) -> float:
        """Return how long something that nobody needs any more is kept; 0 or less: it may go.

        The last pod of a rollout or a CronJob goes a moment before the next one comes.
        """
        now = self._clock()
        left = self._unused.setdefault(key, now) + self.linger_seconds - now
        if left <= 0:
            self._unused.pop(key, None)
        return left

    def needed(self, key: Key) -> None:
        """Take note that something is needed: its lingering starts anew when it is not."""
        self._unused.pop(key, None)

    def queue_event(self, key: Key, event: Object) -> bool:
        """Keep an Event until its key is worked on; False when too many wait."""
        if key not in self.events and len(self.events) >= MAX_PENDING_EVENTS:
            return False
        self.events[key] = event
        return True

    def was_told(self, key: Key) -> bool:
        """Tell whether a super Event has gone up."""
        return key in self._told

    def told(self, key: Key) -> None:
        """Remember, for a while, that a super Event has gone up."""
        self._told[key] = None
        if len(self._told) > MAX_TOLD_EVENTS:
            self._told.popitem(last=False)
