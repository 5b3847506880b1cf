"""In which super cluster each pod of a tenant is seated, and what else is needed there.

Owns the seats of one tenant, in memory: what is there is the fact, and the record on a pod only
the intent. Must not choose or write. Hazards: a tenant may write any record, so that one counts
only where pods may be made now, and once every super cluster that may have the twin was looked
into; and a seat in two places would be two pods, so one that is taken is moved by `leave` and
`take` alone, whatever a record says meanwhile.
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
"""How long pods wait for a target that was granted, or followed anew, just now."""
NOWHERE = ""
"""The seat of a pod that has not been placed yet."""


class Served(NamedTuple):
    """A Service as far as it matters where its pods are."""

    version: str
    selector: Object
    """A label selector; empty for a Service that selects nothing."""
    seat: str
    """Where all of its pods were when they were looked at; NOWHERE: they were not yet."""


class _Taken(NamedTuple):
    name: str
    owner: str


@dataclass(slots=True)
class Trial:
    """What is remembered of the tries of one pod; times by the loop's clock."""

    tried: set[str] = field(default_factory=set)
    """Where no node was found for it."""
    is_refused: bool = False
    """Whether it may not even be made where it is seated: a quota is used up."""
    unsure_at: float | None = None
    """When a create was sent whose answer never came."""
    scaling_at: float | None = None
    """When an autoscaler said that it makes room."""
    rests_until: float = 0.0
    """Until when it is left where it is, as all were tried."""


class Seats:
    """The seats of one tenant's pods."""

    def __init__(
        self,
        *,
        is_split: bool = False,
        has_twin: Callable[[Entry], str],
        follows: Callable[[], Collection[str]],
    ) -> None:
        """`is_split`: pods may be elsewhere than at home; without, nobody asks.

        `has_twin` returns the super cluster whose cache shows a pod's twin, or an empty text;
        `follows` those whose caches it looks in.
        """
        self.is_split = is_split
        self.granted: Mapping[str, TargetGrant] = {}
        """What the tenant is granted, by name; empty: home alone."""
        self.known: Collection[str] | None = None
        """Targets in which there may be something of the tenant, as its status says; None: nobody
        has looked yet, and nothing is seated anywhere."""
        self.untouched: Collection[str] = ()
        """Those of them in which there was nothing before we began, and is nothing yet."""
        self.twin_at = has_twin
        self.spread: set[str] = set()
        """UIDs of the Services of which it was told that they have pods in several."""
        self.services: dict[str, Served] = {}
        """What is known of the other Services whose pods were looked at, by UID."""
        self.counted: Callable[[str], None] = lambda _: None
        """Called with a super cluster that has a pod more or less."""
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
        """Return where a pod is seated; NOWHERE: it is to be placed."""
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
        """Tell whether pods may be made in a super cluster; home takes part alone or by name."""
        return name in self.granted if self.granted else name == HOME

    def opens(self, name: str, now: float) -> None:
        """A target is about to be reached, for the first time or again; `now` is the loop's."""
        self._opening[name] = now + OPENING_SECONDS

    def awaits(self, late: Iterable[str], now: float) -> bool:
        """Tell whether a pod had better wait for one of those that are not reached yet.

        Else all pods of a moment would go elsewhere, and stay there, because a credential was
        renewed in it.
        """
        return any(now < self._opening.get(name, now) for name in late)

    def unseen(self) -> str:
        """Name a target that may have twins and was never looked into; empty: there is none."""
        if self.known is None:
            return "another cluster"
        return min({*self.known} - {*self.untouched} - {*self._follows()}, default="")

    def unproved(self, pod: Entry) -> str:
        """Name a target where a pod may have a twin that nobody can see; empty: there is none."""
        return self.unseen() if self.is_split and pod.uid not in self._new else ""

    def saw_made(self, uid: str) -> None:
        """A pod was made just now: whoever was at work before us cannot have made a twin of it."""
        if self.is_split:
            self._new.add(uid)

    def is_recorded(self, pod: Entry, name: str) -> bool:
        """Tell whether a pod says itself that it is seated there; the answer to that is in, too."""
        return self.record_of(pod).partition("/")[0] == name

    def record_of(self, pod: Entry) -> str:
        """Return the record of a pod, whoever wrote it."""
        return pod.annotations.get(wellknown.ASSIGNED_CLUSTER, "")

    def take(self, pod: Entry, name: str) -> None:
        """Give a pod a seat."""
        self.forget(pod.uid)
        taken = self._taken[pod.uid] = _Taken(name, controller_of(pod))
        self._peers[taken] += 1
        self._pods[name] += 1
        self.counted(name)

    def promise(self, uid: str, inventory: Inventory, requests: Amounts) -> None:
        """Count what a pod asks as taken where it was just seated."""
        inventory.promise(uid, requests)
        self._promised[uid] = inventory

    @contextmanager
    def reserved(
        self, pod: Entry, name: str, inventory: Inventory | None, requests: Amounts
    ) -> Iterator[None]:
        """Count a pod where it is to go while that is written down; it has no seat there yet.

        Those of one moment would all choose the same super cluster else.
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
        """Give a pod the seat that was chosen for it, and have its sessions hear of that."""
        self.take(pod, name)
        self.look_again(pod)

    def look_again(self, pod: Entry) -> None:
        """Have all sessions look at where a pod is seated."""
        for heard in list(self._heard):
            heard(pod)

    def subscribe(self, heard: Callable[[Entry], None]) -> Callable[[], None]:
        """Call `heard` with each pod that is moved; returns what ends that."""
        self._heard.append(heard)
        return partial(self._heard.remove, heard)

    def trial(self, uid: str) -> Trial:
        """Return what is remembered of the tries of a pod."""
        return self._trials.setdefault(uid, Trial())

    def gone(self, uid: str) -> None:
        """A pod is gone, and all that is remembered of it."""
        self.forget(uid)
        self._trials.pop(uid, None)
        self._new.discard(uid)

    def doubt(self, pod: Entry) -> None:
        """Close the seat of a record that does not count: it may be of a try without an answer."""
        name = self.record_of(pod).partition("/")[0]
        if pod.uid not in self._new and (name == HOME or name in (self.known or ())):
            self._leaving.setdefault(pod.uid, name)

    def leave(self, pod: Entry) -> None:
        """Close a seat: no create begins, until another one is taken."""
        taken = self._taken.get(pod.uid)
        if taken is not None:
            self.forget(pod.uid)
            self._leaving[pod.uid] = taken.name

    def left(self, pod: Entry) -> str:
        """Return the seat that a pod is on its way out of; empty: none that may have its twin."""
        return self._leaving.get(pod.uid, "")

    def emptied(self, uid: str) -> None:
        """Nothing is left in the seat that a pod is on its way out of; it stays closed."""
        self._leaving[uid] = NOWHERE

    def forget(self, uid: str) -> None:
        """A pod is gone, or gets another seat."""
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
        """The link ends: what was promised is nobody's any more."""
        for uid, inventory in self._promised.items():
            inventory.release(uid)
        self._promised.clear()

    def peers(self, pod: Entry, name: str) -> int:
        """Count the pods of the same controller that are seated in a super cluster."""
        owner = controller_of(pod)
        return self._peers[_Taken(name, owner)] if owner else 0

    def is_any_at(self, name: str) -> bool:
        """Tell whether any pod is seated in a super cluster, or on its way out of it."""
        return name in self._leaving.values() or self.pods_at(name) > 0

    def is_any_besides(self, name: str) -> bool:
        """Tell whether any pod is seated in another super cluster than this."""
        return any(pods for seat, pods in self._pods.items() if seat != name)

    def service_gone(self, uid: str) -> None:
        """A Service is gone, and all that is remembered of it."""
        self.spread.discard(uid)
        self.services.pop(uid, None)

    def pods_at(self, name: str) -> int:
        """Count the pods that are seated in a super cluster."""
        return self._pods[name]

    def _seen(self, pod: Entry) -> str:
        """Return where a pod was seated before we began; a bound pod never moves."""
        node = node_of(pod)
        if node:
            target = target_node.target_of(node)
            return target if self._may_be(target) else HOME
        return self.twin_at(pod) or self._recorded(pod)

    def _recorded(self, pod: Entry) -> str:
        """Return what a record says, if a twin may be made there and is nowhere else."""
        name, slash, _ = self.record_of(pod).partition("/")
        return name if slash and self.offers(name) and not self.unproved(pod) else NOWHERE

    def _may_be(self, target: str) -> bool:
        return target in self.granted or target in (self.known or ())
