"""Assigned clusters of the pods of one tenant.

Owns the assignments of one tenant, in memory. The twin is the fact, and the record on a pod only
the intent. Must not choose or write. Hazards: a tenant may write any record. So a record may apply
only where pods may be created now, and after every super cluster that may have the twin was
checked. A pod must have one assigned cluster only, because two would mean two pods. So only
`close_assignment` and `assign` move an assignment, whatever a record contains meanwhile.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from kubeio.cache.store import Entry, Store
from syncer.model.keys import HOME
from syncer.model.pod_index import get_controller_uid, get_node
from syncer.placement.capacity import ClusterCapacity
from syncer.placement.reschedule_states import RescheduleState
from syncer.placement.target_grants import TargetGrants
from syncer.rules.placement import target_node
from syncer.rules.placement.cluster_scheduler import ResourceAmounts
from tenancy import wellknown

UNASSIGNED = ""
"""The assigned cluster of a pod that has not been placed yet."""


CountHandler = Callable[[str], None]
"""Called with a super cluster when its number of pods changes."""


class _ClaimedName(NamedTuple):
    name: str
    owner: str


class Assignments:
    """The assigned clusters of the pods of a tenant whose pods may run in several clusters."""

    is_split = True
    """Whether pods may run in other clusters than the home cluster."""

    def __init__(
        self,
        *,
        grants: TargetGrants,
        find_twin_cluster: Callable[[Entry], str],
    ) -> None:
        """`grants` are those of the tenant.

        `find_twin_cluster` returns the super cluster that has a pod's twin in its cache, or an
        empty string.
        """
        self._find_twin_cluster = find_twin_cluster
        self._grants = grants
        self._count_handlers: list[CountHandler] = []
        self._new_pods: set[str] = set()
        self._assigned: dict[str, _ClaimedName] = {}
        self._peers: Counter[_ClaimedName] = Counter()
        self._pods: Counter[str] = Counter()
        self._leaving_pods: dict[str, str] = {}
        self._reservations: dict[str, ClusterCapacity] = {}
        self._reschedule_states: dict[str, RescheduleState] = {}
        self._handlers: list[Callable[[Entry], None]] = []

    def get_cluster(self, pod: Entry) -> str:
        """Return the assigned cluster of a pod. NOWHERE: it must be placed."""
        taken = self._assigned.get(pod.uid)
        if taken is not None:
            return taken.name
        if pod.uid in self._leaving_pods or not self._grants.is_status_read:
            return UNASSIGNED
        found = self._infer_cluster(pod)
        if found:
            self.assign(pod, found)
        return found

    def list_unassigned(self, pods: Store) -> Iterable[Entry]:
        """Return the pods of the tenant without an assigned cluster."""
        return (pod for pod in pods.list() if self.get_cluster(pod) == UNASSIGNED)

    def find_unproved_target(self, pod: Entry) -> str:
        """Return a target that may have an unseen twin of a pod, or an empty string."""
        return "" if pod.uid in self._new_pods else self._grants.find_unchecked()

    def record_new_pod(self, uid: str) -> None:
        """Record a pod created a moment ago.

        An earlier process cannot have created a twin of it.
        """
        self._new_pods.add(uid)

    def find_twin_cluster(self, pod: Entry) -> str:
        """Return the super cluster that has a pod's twin in its cache, or an empty string."""
        return self._find_twin_cluster(pod)

    def is_recorded(self, pod: Entry, name: str) -> bool:
        """Return True if a pod's record names this assigned cluster.

        Then the write of the record was answered.
        """
        return self.read_record(pod).partition("/")[0] == name

    def read_record(self, pod: Entry) -> str:
        """Return the record of a pod, by any writer."""
        return pod.annotations.get(wellknown.ASSIGNED_CLUSTER, "")

    def assign(self, pod: Entry, name: str) -> None:
        """Assign a pod to a super cluster."""
        self.remove_assignment(pod.uid)
        taken = self._assigned[pod.uid] = _ClaimedName(name, get_controller_uid(pod))
        self._peers[taken] += 1
        self._pods[name] += 1
        self._notify_count(name)

    def reserve_assigned(
        self, uid: str, inventory: ClusterCapacity, requests: ResourceAmounts
    ) -> None:
        """Count a pod's requests as used in the cluster to which it was just assigned."""
        inventory.reserve(uid, requests)
        self._reservations[uid] = inventory

    @contextmanager
    def reserve_during(
        self, pod: Entry, name: str, inventory: ClusterCapacity | None, requests: ResourceAmounts
    ) -> Iterator[None]:
        """Count a pod in its chosen cluster while the record is written. It is not assigned yet.

        Otherwise all pods of one moment would choose the same super cluster.
        """
        taken = _ClaimedName(name, get_controller_uid(pod))
        self._peers[taken] += 1
        if inventory is not None:
            inventory.reserve(pod.uid, requests)
        try:
            yield
        finally:
            self._remove_peer(taken)
            if inventory is not None:
                inventory.release(pod.uid)

    def reassign(self, pod: Entry, name: str) -> None:
        """Move a pod to the chosen cluster and notify its sessions."""
        self.assign(pod, name)
        self.notify_pod(pod)

    def notify_pod(self, pod: Entry) -> None:
        """Notify all sessions that a pod's assignment must be checked."""
        for heard in list(self._handlers):
            heard(pod)

    def subscribe(self, handler: Callable[[Entry], None]) -> Callable[[], None]:
        """Call `heard` with each pod that is moved. Returns the function that unsubscribes."""
        self._handlers.append(handler)
        return partial(self._handlers.remove, handler)

    def subscribe_counts(self, handler: CountHandler) -> Callable[[], None]:
        """Call the handler after each change of a number of pods. Returns the unsubscription."""
        self._count_handlers.append(handler)
        return partial(self._count_handlers.remove, handler)

    def _notify_count(self, name: str) -> None:
        for handler in self._count_handlers:
            handler(name)

    def get_reschedule_state(self, uid: str) -> RescheduleState:
        """Return the memory of the attempts to place a pod."""
        return self._reschedule_states.setdefault(uid, RescheduleState())

    def forget_deleted_pod(self, uid: str) -> None:
        """Forget a deleted pod."""
        self.remove_assignment(uid)
        self._reschedule_states.pop(uid, None)
        self._new_pods.discard(uid)

    def close_unreliable_record(self, pod: Entry) -> None:
        """Reject a record that does not apply, so that no create begins there.

        It may be from an attempt whose answer was lost.
        """
        name = self.read_record(pod).partition("/")[0]
        if pod.uid not in self._new_pods and (name == HOME or self._grants.is_known(name)):
            self._leaving_pods.setdefault(pod.uid, name)

    def close_assignment(self, pod: Entry) -> None:
        """End an assignment. No create begins until the pod is assigned again."""
        taken = self._assigned.get(pod.uid)
        if taken is not None:
            self.remove_assignment(pod.uid)
            self._leaving_pods[pod.uid] = taken.name

    def get_leaving_cluster(self, pod: Entry) -> str:
        """Return the cluster that a pod is leaving. Empty: no cluster may have its twin."""
        return self._leaving_pods.get(pod.uid, "")

    def mark_left(self, uid: str) -> None:
        """Record that the cluster that a pod is leaving has nothing left of it.

        It stays unassigned.
        """
        self._leaving_pods[uid] = UNASSIGNED

    def remove_assignment(self, uid: str) -> None:
        """Forget the assignment of a pod that was deleted or is assigned again."""
        self._leaving_pods.pop(uid, None)
        promised = self._reservations.pop(uid, None)
        if promised is not None:
            promised.release(uid)
        taken = self._assigned.pop(uid, None)
        if taken is not None:
            self._remove_peer(taken)
            self._pods[taken.name] -= 1
            self._notify_count(taken.name)

    def _remove_peer(self, taken: _ClaimedName) -> None:
        self._peers[taken] -= 1
        if not self._peers[taken]:
            del self._peers[taken]

    def release_all(self) -> None:
        """Release all promised capacity at the end of the connection."""
        for uid, inventory in self._reservations.items():
            inventory.release(uid)
        self._reservations.clear()

    def count_peers(self, pod: Entry, name: str) -> int:
        """Count the pods of the same controller that are assigned to a super cluster."""
        owner = get_controller_uid(pod)
        return self._peers[_ClaimedName(name, owner)] if owner else 0

    def has_pods_in(self, name: str) -> bool:
        """Return True if any pod is assigned to a super cluster or is leaving it."""
        return name in self._leaving_pods.values() or self.count_pods(name) > 0

    def has_pods_outside(self, name: str) -> bool:
        """Return True if any pod is assigned to a different super cluster than this."""
        return any(pods for cluster, pods in self._pods.items() if cluster != name)

    def count_pods(self, name: str) -> int:
        """Count the pods that are assigned to a super cluster."""
        return self._pods[name]

    def _infer_cluster(self, pod: Entry) -> str:
        """Return a pod's assignment from before this process began. A bound pod never moves."""
        node = get_node(pod)
        if node:
            target = target_node.parse_node_name(node)
            return target if self._may_have_twin(target) else HOME
        return self._find_twin_cluster(pod) or self._get_valid_record(pod)

    def _get_valid_record(self, pod: Entry) -> str:
        """Return the cluster in a record, if a twin may be created in it and in no other."""
        name, slash, _ = self.read_record(pod).partition("/")
        return (
            name
            if slash and self._grants.is_offered(name) and not self.find_unproved_target(pod)
            else UNASSIGNED
        )

    def _may_have_twin(self, target: str) -> bool:
        return target in self._grants.granted or self._grants.is_known(target)


class HomeAssignments(Assignments):
    """The same for a tenant whose pods all run in the home cluster. It remembers no pod."""

    is_split = False

    def get_cluster(self, pod: Entry) -> str:  # noqa: ARG002
        """Return the home cluster."""
        return HOME

    def list_unassigned(self, pods: Store) -> Iterable[Entry]:  # noqa: ARG002
        """Return nothing."""
        return ()

    def find_twin_cluster(self, pod: Entry) -> str:  # noqa: ARG002
        """Return an empty string, because no twin is searched in another cluster."""
        return ""

    def read_record(self, pod: Entry) -> str:  # noqa: ARG002
        """Return an empty string, because no record applies."""
        return ""

    def is_recorded(self, pod: Entry, name: str) -> bool:  # noqa: ARG002
        """Return True, because no pod needs a record."""
        return True

    def find_unproved_target(self, pod: Entry) -> str:  # noqa: ARG002
        """Return an empty string, because no target has a twin."""
        return ""

    def record_new_pod(self, uid: str) -> None:
        """Record nothing."""
