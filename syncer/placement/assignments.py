"""Assigned clusters of one tenant's pods, and related memory.

Owns the assignments of one tenant, in memory. The twin is the fact, and the record on a pod only
the intent. Must not choose or write. Hazards: a tenant may write any record. So a record may apply
only where pods may be created now, and after every super cluster that may have the twin was
checked. A pod must have one assigned cluster only, because two would mean two pods. So only `leave`
and `take` move an assignment, whatever a record contains meanwhile.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.keys import HOME
from syncer.model.pod_index import controller_of, node_of
from syncer.placement.capacity import Inventory
from syncer.rules.placement import target_node
from syncer.rules.placement.cluster_scheduler import Amounts
from tenancy import wellknown
from tenancy.specs import TargetGrant

OPENING_SECONDS = 10.0
"""Time in seconds that pods wait for a target that was granted or reconnected a moment ago."""
NOWHERE = ""
"""The assigned cluster of a pod that has not been placed yet."""


class Served(NamedTuple):
    """Facts of a Service that decide where its pods may run."""

    version: str
    selector: Object
    """A label selector. Empty for a Service that selects nothing."""
    seat: str
    """The cluster of all of its pods at the last check. NOWHERE: not checked yet."""


class _Taken(NamedTuple):
    name: str
    owner: str


@dataclass(slots=True)
class Trial:
    """Memory of the attempts to place one pod. Times are of the event loop's clock."""

    tried: set[str] = field(default_factory=set)
    """Clusters in which no node was found for it."""
    is_refused: bool = False
    """Whether its assigned cluster refuses to create it, because a quota is used up."""
    unsure_at: float | None = None
    """Time when a create was sent that was never answered."""
    scaling_at: float | None = None
    """Time when an autoscaler reported a scale-up."""
    rests_until: float = 0.0
    """Time until which it stays where it is, because all clusters were tried."""


class Seats:
    """The assigned clusters of one tenant's pods."""

    def __init__(
        self,
        *,
        is_split: bool = False,
        has_twin: Callable[[Entry], str],
        follows: Callable[[], Collection[str]],
    ) -> None:
        """`is_split`: pods may run in other clusters than the home cluster.

        If it is False, no assignment is kept.

        `has_twin` returns the super cluster that has a pod's twin in its cache, or an empty string.
        `follows` returns the super clusters whose caches it reads.
        """
        self.is_split = is_split
        self.granted: Mapping[str, TargetGrant] = {}
        """Grants of the tenant by name. Empty: the home cluster only."""
        self.known: Collection[str] | None = None
        """Targets that may have objects of the tenant, according to its status. None: the status
        has not been read, and no pod has an assigned cluster yet.
        """
        self.untouched: Collection[str] = ()
        """Known targets without objects of the tenant, before this process began and until now."""
        self.twin_at = has_twin
        self.spread: set[str] = set()
        """UIDs of the Services that were reported to have pods in several clusters."""
        self.services: dict[str, Served] = {}
        """Facts of the other Services whose pods were checked, by UID."""
        self.counted: Callable[[str], None] = lambda _: None
        """Called with a super cluster when its number of pods changes."""
        self._opening: dict[str, float] = {}
        self._follows = follows
        self._new: set[str] = set()
        self._taken: dict[str, _Taken] = {}
        self._peers: Counter[_Taken] = Counter()
        self._pods: Counter[str] = Counter()
        self._leaving: dict[str, str] = {}
        self._promised: dict[str, Inventory] = {}
        self._trials: dict[str, Trial] = {}
        self._heard: list[Callable[[Entry], None]] = []

    def of(self, pod: Entry) -> str:
        """Return the assigned cluster of a pod. NOWHERE: it must be placed."""
        if not self.is_split:
            return HOME
        taken = self._taken.get(pod.uid)
        if taken is not None:
            return taken.name
        if pod.uid in self._leaving or self.known is None:
            return NOWHERE
        found = self._seen(pod)
        if found:
            self.take(pod, found)
        return found

    def offers(self, name: str) -> bool:
        """Return True if pods may be created in a super cluster.

        The home cluster takes part if it is granted by name or nothing is granted.
        """
        return name in self.granted if self.granted else name == HOME

    def opens(self, name: str, now: float) -> None:
        """Record that a target will connect soon, for the first time or again."""
        self._opening[name] = now + OPENING_SECONDS

    def awaits(self, late: Iterable[str], now: float) -> bool:
        """Return True while a newly granted or reconnecting target is within `OPENING_SECONDS`.

        Without this wait, pods created during a credential rotation are placed elsewhere
        permanently.
        """
        return any(now < self._opening.get(name, now) for name in late)

    def unseen(self) -> str:
        """Return a target that may have twins and was never checked, or an empty string."""
        if self.known is None:
            return "another cluster"
        return min({*self.known} - {*self.untouched} - {*self._follows()}, default="")

    def unproved(self, pod: Entry) -> str:
        """Return a target that may have an unseen twin of a pod, or an empty string."""
        return self.unseen() if self.is_split and pod.uid not in self._new else ""

    def saw_made(self, uid: str) -> None:
        """Record a pod created a moment ago.

        An earlier process cannot have created a twin of it.
        """
        if self.is_split:
            self._new.add(uid)

    def is_recorded(self, pod: Entry, name: str) -> bool:
        """Return True if a pod's record names this assigned cluster.

        Then the write of the record was answered.
        """
        return self.record_of(pod).partition("/")[0] == name

    def record_of(self, pod: Entry) -> str:
        """Return the record of a pod, by any writer."""
        return pod.annotations.get(wellknown.ASSIGNED_CLUSTER, "")

    def take(self, pod: Entry, name: str) -> None:
        """Assign a pod to a super cluster."""
        self.forget(pod.uid)
        taken = self._taken[pod.uid] = _Taken(name, controller_of(pod))
        self._peers[taken] += 1
        self._pods[name] += 1
        self.counted(name)

    def promise(self, uid: str, inventory: Inventory, requests: Amounts) -> None:
        """Count a pod's requests as used in the cluster to which it was just assigned."""
        inventory.promise(uid, requests)
        self._promised[uid] = inventory

    @contextmanager
    def reserved(
        self, pod: Entry, name: str, inventory: Inventory | None, requests: Amounts
    ) -> Iterator[None]:
        """Count a pod in its chosen cluster while the record is written. It is not assigned yet.

        Otherwise all pods of one moment would choose the same super cluster.
        """
        taken = _Taken(name, controller_of(pod))
        self._peers[taken] += 1
        if inventory is not None:
            inventory.promise(pod.uid, requests)
        try:
            yield
        finally:
            self._leave_peers(taken)
            if inventory is not None:
                inventory.release(pod.uid)

    def move(self, pod: Entry, name: str) -> None:
        """Move a pod to the chosen cluster and notify its sessions."""
        self.take(pod, name)
        self.look_again(pod)

    def look_again(self, pod: Entry) -> None:
        """Notify all sessions that a pod's assignment must be checked."""
        for heard in list(self._heard):
            heard(pod)

    def subscribe(self, heard: Callable[[Entry], None]) -> Callable[[], None]:
        """Call `heard` with each pod that is moved. Returns the function that unsubscribes."""
        self._heard.append(heard)
        return partial(self._heard.remove, heard)

    def trial(self, uid: str) -> Trial:
        """Return the memory of the attempts to place a pod."""
        return self._trials.setdefault(uid, Trial())

    def gone(self, uid: str) -> None:
        """Forget a deleted pod."""
        self.forget(uid)
        self._trials.pop(uid, None)
        self._new.discard(uid)

    def doubt(self, pod: Entry) -> None:
        """Reject a record that does not apply, so that no create begins there.

        It may be from an attempt whose answer was lost.
        """
        name = self.record_of(pod).partition("/")[0]
        if pod.uid not in self._new and (name == HOME or name in (self.known or ())):
            self._leaving.setdefault(pod.uid, name)

    def leave(self, pod: Entry) -> None:
        """End an assignment. No create begins until the pod is assigned again."""
        taken = self._taken.get(pod.uid)
        if taken is not None:
            self.forget(pod.uid)
            self._leaving[pod.uid] = taken.name

    def left(self, pod: Entry) -> str:
        """Return the cluster that a pod is leaving. Empty: no cluster may have its twin."""
        return self._leaving.get(pod.uid, "")

    def emptied(self, uid: str) -> None:
        """Record that the cluster that a pod is leaving has nothing left of it.

        It stays unassigned.
        """
        self._leaving[uid] = NOWHERE

    def forget(self, uid: str) -> None:
        """Forget the assignment of a pod that was deleted or is assigned again."""
        self._leaving.pop(uid, None)
        promised = self._promised.pop(uid, None)
        if promised is not None:
            promised.release(uid)
        taken = self._taken.pop(uid, None)
        if taken is not None:
            self._leave_peers(taken)
            self._pods[taken.name] -= 1
            self.counted(taken.name)

    def _leave_peers(self, taken: _Taken) -> None:
        self._peers[taken] -= 1
        if not self._peers[taken]:
            del self._peers[taken]

    def release(self) -> None:
        """Release all promised capacity at the end of the connection."""
        for uid, inventory in self._promised.items():
            inventory.release(uid)
        self._promised.clear()

    def peers(self, pod: Entry, name: str) -> int:
        """Count the pods of the same controller that are assigned to a super cluster."""
        owner = controller_of(pod)
        return self._peers[_Taken(name, owner)] if owner else 0

    def is_any_at(self, name: str) -> bool:
        """Return True if any pod is assigned to a super cluster or is leaving it."""
        return name in self._leaving.values() or self.pods_at(name) > 0

    def is_any_besides(self, name: str) -> bool:
        """Return True if any pod is assigned to a different super cluster than this."""
        return any(pods for seat, pods in self._pods.items() if seat != name)

    def service_gone(self, uid: str) -> None:
        """Forget a deleted Service."""
        self.spread.discard(uid)
        self.services.pop(uid, None)

    def pods_at(self, name: str) -> int:
        """Count the pods that are assigned to a super cluster."""
        return self._pods[name]

    def _seen(self, pod: Entry) -> str:
        """Return a pod's assignment from before this process began. A bound pod never moves."""
        node = node_of(pod)
        if node:
            target = target_node.target_of(node)
            return target if self._may_be(target) else HOME
        return self.twin_at(pod) or self._recorded(pod)

    def _recorded(self, pod: Entry) -> str:
        """Return the cluster in a record, if a twin may be created in it and in no other."""
        name, slash, _ = self.record_of(pod).partition("/")
        return name if slash and self.offers(name) and not self.unproved(pod) else NOWHERE

    def _may_be(self, target: str) -> bool:
        return target in self.granted or target in (self.known or ())
