"""Handlers for watch events of a target: which event queues which key.

Owns the differences from `syncer.handlers.super_events`. Missing pods are reported to the pod loss
guard, and one virtual node stands for all nodes. Must not conclude that a pod is lost. Hazard: a
twin that leaves the cache without a delete event is no proof of its end.
"""

from collections.abc import Mapping

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.clusters.target_cluster import TargetCluster
from syncer.handlers import dependents
from syncer.handlers.split_tenant_events import index_target_pod
from syncer.handlers.super_events import SuperEvents
from syncer.model.keys import Key
from syncer.rules.pods import lifecycle
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy import ownership


class TargetEvents(SuperEvents):
    """Routes events of a target to all present sessions."""

    def __init__(self, target: TargetCluster, sessions: Mapping[str, Session]) -> None:
        """`sessions` are those with the target, by the UID of the VirtualCluster."""
        super().__init__(target.cluster, sessions)
        self._pod_loss_guard = target.pod_loss_guard

    def subscribe(self) -> None:
        """Subscribe to every cache of the target, and to the capacity of its nodes."""
        super().subscribe()
        self.super_cluster.capacity.subscribe(self._handle_nodes)

    def _handle_nodes(self) -> None:
        dependents.enqueue_target_node(self.sessions.values())

    def handle_pod(
        self, session: Session, key: Key, old: Entry | None, new: Entry | None, *, low: bool
    ) -> None:
        """Record a twin that is present, and keep the needs of a pod while its twin exists."""
        uid = _read_owner_uid(session, new) if new is not None else ""
        if uid:
            self._pod_loss_guard.remove_missing(session.tenant.uid, uid)
        super().handle_pod(session, key, old, new, low=low)
        if isinstance(session, TargetSession) and (old is None or new is None):
            _handle_twin_moved(session, key, new, low=low)

    def record_twin_end(
        self, session: Session, super_pod: Entry, last: Object, *, live: bool
    ) -> None:
        """Report a pod that vanished without a delete event to the pod loss guard as well."""
        uid = _read_owner_uid(session, super_pod)
        is_bound = bool((last.get("spec") or {}).get("nodeName"))
        is_over = live or super_pod.deleting or lifecycle.is_finished(last)
        if uid and is_bound and not is_over:
            self._pod_loss_guard.add_missing(session.tenant.uid, uid)
        super().record_twin_end(session, super_pod, last, live=live)


def _read_owner_uid(session: Session, super_pod: Entry) -> str:
    """Return the UID of the tenant pod that a super pod records, or an empty string."""
    annotations = {"annotations": super_pod.annotations}
    owner = ownership.read_owner(annotations, session.tenant.super_cluster_uid)
    return owner.uid if owner is not None else ""


def _handle_twin_moved(session: TargetSession, key: Key, new: Entry | None, *, low: bool) -> None:
    """Keep a pod's needs in a target that is no longer granted, as long as its twin exists."""
    if new is None:
        dependents.enqueue_namespace_in_target(session, key.namespace, low=low)
    entry = session.stores["Pod"].get(key.namespace, key.name)
    if entry is not None:
        index_target_pod(session, entry, entry, low=low)
