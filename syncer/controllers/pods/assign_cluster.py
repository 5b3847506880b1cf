"""Reconciler of the assigned cluster of a pod: chosen, recorded, and kept.

Owns the writes, in the tenant only. Must not know how a cluster is chosen. Each super cluster's own
key writes the twin, after a check in this module. Hazard: the record must be written, and the
answer received, before any create. A pod with a different record may have an unseen twin elsewhere.
"""

import secrets

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import sync_down
from syncer.controllers.cached_objects import ObjectPair
from syncer.controllers.pods import candidates, node_selection, reschedule
from syncer.model import decide
from syncer.model.decide import DeleteTwin
from syncer.model.keys import ASSIGNMENT, Key
from syncer.model.unstructured import as_mapping
from syncer.placement.assignments import UNASSIGNED
from syncer.rules.placement import cluster_scheduler, target_node
from syncer.rules.placement.cluster_scheduler import NoFit
from syncer.rules.pods import lifecycle
from syncer.rules.registry import SyncedKind
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy import wellknown
from tenancy.resources import PODS

NO_FIT_RETRY_SECONDS = 30.0
"""Retry interval in seconds for a pod without a suitable cluster."""
CONNECTING_RETRY_SECONDS = 1.0
"""Retry interval in seconds for a pod that waits for a connecting target."""
_RECORD_UID_DIGITS = 8  # bytes: 16 hex digits

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


# --- the pod's key in the home cluster ------------------------------------------------------------


async def reconcile_assignment(key: Key, session: Session) -> Result:
    """Place one pod without an assigned cluster, or whose cluster is no longer granted."""
    assignments = session.connection.assignments
    tenant_x = session.stores[PODS.kind].get(key.namespace, key.name)
    if tenant_x is None or not assignments.is_split:
        return Done()
    if tenant_x.deleting:
        return _restore_assignment(key, tenant_x, session)
    pod = tenant_x.decode()
    if lifecycle.has_scheduling_gates(pod) or lifecycle.is_finished(pod):
        return Done()
    assigned = assignments.get_cluster(tenant_x)
    if assigned != UNASSIGNED:
        return await _handle_assigned(key, tenant_x, pod, assigned, session)
    return await _handle_unassigned(key, tenant_x, pod, session)


async def _handle_unassigned(key: Key, tenant_x: Entry, pod: Object, session: Session) -> Result:
    assignments = session.connection.assignments
    if assignments.find_unproved_target(tenant_x):
        return RequeueAfter(NO_FIT_RETRY_SECONDS)  # and at once when that target connects
    if not assignments.get_leaving_cluster(tenant_x):
        assignments.close_unreliable_record(tenant_x)
    if assignments.get_leaving_cluster(tenant_x):
        verdict = await reschedule.wait_until_left(
            key, tenant_x, assignments.get_leaving_cluster(tenant_x), session
        )
        if verdict is not None:
            return verdict
        if not candidates.is_pod_current(tenant_x, session):
            return Done()
        assignments.mark_left(tenant_x.uid)
    return await _assign_cluster(key, tenant_x, pod, session)


def _restore_assignment(key: Key, tenant_x: Entry, session: Session) -> Result:
    """Restore the assignment of a deleted pod that was leaving its cluster, to end there."""
    assigned = session.connection.assignments.get_leaving_cluster(tenant_x)
    there = candidates.get_session_in(assigned, session) if assigned else None
    if assigned:
        session.connection.assignments.reassign(tenant_x, assigned)
    if there is not None:
        there.work.enqueue(candidates.build_pod_key(key, there))
    return Done()


async def _handle_assigned(
    key: Key, tenant_x: Entry, pod: Object, assigned: str, session: Session
) -> Result:
    if not session.connection.assignments.is_recorded(tenant_x, assigned):
        await _write_assignment(
            tenant_x, assigned, session
        )  # from before there was a choice, or foreign
        return Done()
    if as_mapping(pod.get("spec")).get("nodeName"):
        return Done()  # bound pods never move
    return await reschedule.try_reschedule(key, tenant_x, pod, assigned, session)


async def _assign_cluster(key: Key, tenant_x: Entry, pod: Object, session: Session) -> Result:
    assignments = session.connection.assignments
    ask = candidates.build_requirements(tenant_x, pod, session)
    offered = candidates.list_candidates(tenant_x, session)
    if session.connection.grants.must_wait_for(candidates.list_unreached(offered), session.now()):
        return RequeueAfter(CONNECTING_RETRY_SECONDS)
    found = cluster_scheduler.choose_cluster(
        ask, offered, assignments.get_reschedule_state(tenant_x.uid).tried_clusters
    )
    if isinstance(found, NoFit) and assignments.get_reschedule_state(tenant_x.uid).tried_clusters:
        found = cluster_scheduler.choose_cluster(ask, offered)  # all were tried: use the best
    if isinstance(found, NoFit):
        kind = session.kinds[PODS.kind]
        pod_key = candidates.build_pod_key(key, session)
        await node_selection.report_unschedulable(
            kind, pod_key, pod, found.message, session, tenant_x=tenant_x
        )
        return RequeueAfter(NO_FIT_RETRY_SECONDS)
    there = candidates.get_session_in(found.name, session)
    inventory = there.super_cluster.capacity if there is not None else None
    with assignments.reserve_during(tenant_x, found.name, inventory, ask.requests):
        await _write_assignment(tenant_x, found.name, session)
    if not candidates.is_pod_current(tenant_x, session):
        return Done()  # deleted meanwhile: its entry would stay forever
    assignments.reassign(tenant_x, found.name)
    there = candidates.get_session_in(found.name, session)
    if there is not None:
        assignments.reserve_assigned(tenant_x.uid, there.super_cluster.capacity, ask.requests)
        there.work.enqueue(candidates.build_pod_key(key, there))
    _log.info("tenant.assigned", target=found.name)
    return Done()


async def _write_assignment(tenant_x: Entry, name: str, session: Session) -> None:
    """Write the assigned cluster of a pod. Raises Wait if the pod has changed meanwhile."""
    body = {
        "metadata": {
            "uid": tenant_x.uid,
            "resourceVersion": tenant_x.resource_version,
            "annotations": {
                wellknown.ASSIGNED_CLUSTER: f"{name}/{secrets.token_hex(_RECORD_UID_DIGITS)}"
            },
        }
    }
    try:
        await session.writer.patch_unguarded(
            PODS, tenant_x.name, body, namespace=tenant_x.namespace, subresource="status"
        )
    except errors.Conflict as problem:
        raise NotReadyYet("the pod has changed meanwhile", CACHE_BEHIND_SECONDS) from problem


# --- checks for the keys of each super cluster ----------------------------------------------------


async def reconcile_assigned_elsewhere(
    kind: SyncedKind, pair: ObjectPair, tenant_x: Entry, session: Session
) -> Result | None:
    """Handle a pod that is not assigned to this super cluster. Returns None if it is."""
    assignments = session.connection.assignments
    assigned = assignments.get_cluster(tenant_x)
    if assigned == session.name:
        return None
    if assignments.get_leaving_cluster(tenant_x) and tenant_x.deleting and session.is_home:
        session.work.enqueue(session.build_key(ASSIGNMENT, pair.key.namespace, pair.key.name))
    elif (
        assigned == UNASSIGNED and session.is_home and not assignments.get_leaving_cluster(tenant_x)
    ):
        if tenant_x.deleting and assignments.find_unproved_target(tenant_x):
            return RequeueAfter(NO_FIT_RETRY_SECONDS)
        if tenant_x.deleting:
            return None  # it has no twin, and it must be deleted
        session.work.enqueue(session.build_key(ASSIGNMENT, pair.key.namespace, pair.key.name))
    action = decide.decide(
        tenant_x,
        session.twins.build_state(pair.super_x, pair.key.namespace),
        vc_uid=session.tenant.uid,
        wanted=False,
    )
    if not isinstance(action, DeleteTwin):
        return Done()
    is_leaving = assignments.get_leaving_cluster(tenant_x) == session.name
    if is_leaving and _is_pod_bound(action.super_x):
        return Done()  # the pod's own key detects that, and it stays
    _log.warning("super.stale", assigned=assigned or "none", leaving=is_leaving)
    # The twin of a leaving pod may be bound at this moment. It is deleted in the version seen, or
    # not.
    await session.proven_deletes.delete_proven(
        sync_down.build_delete_target(kind, pair.key, action.super_x, action.grounds),
        as_seen=is_leaving,
    )
    return Done()


def _is_pod_bound(super_x: Entry) -> bool:
    return bool(as_mapping(super_x.decode().get("spec")).get("nodeName"))


def check_may_create(tenant_x: Entry, session: Session) -> None:
    """Raise Wait unless a twin may be created here.

    The cluster must be granted, the only one, and recorded.
    """
    assignments = session.connection.assignments
    if not session.connection.grants.is_offered(session.name):
        candidates.enqueue_assignment(tenant_x, session)
        raise NotReadyYet("this target is not granted", NO_FIT_RETRY_SECONDS)
    unseen, found = (
        assignments.find_unproved_target(tenant_x),
        assignments.find_twin_cluster(tenant_x),
    )
    if unseen:
        raise NotReadyYet(
            f"{unseen} may have a twin of it, and is not connected yet", NO_FIT_RETRY_SECONDS
        )
    if found and found != session.name:
        raise NotReadyYet(f"its twin in {found} must be deleted first", NO_FIT_RETRY_SECONDS)
    if not assignments.is_recorded(tenant_x, session.name):
        candidates.enqueue_assignment(tenant_x, session)
        raise NotReadyYet("the record of the assigned cluster is being written")


def strip_target_constraints(pod: Object, session: Session) -> Object:
    """Return a tenant pod as its assigned cluster must see it."""
    if not isinstance(session, TargetSession):
        return pod
    return target_node.strip_target_constraints(
        pod,
        session.name,
        candidates.get_target_node_labels(session),
        session.target.spec.taints,
    )
