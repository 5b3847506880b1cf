"""Nodes that a tenant leaves for a pod: held without any, its twin recreated for new ones.

Owns the writes. Must not know how nodes are chosen. The super cluster's scheduler uses the node
names written into the twin at its creation. So a twin that waits for a node is replaced when the
tenant's labels, taints or cordons change those names. A pod whose tenant named the node fails when
that node cannot run it, because no scheduler would retry. Hazard: the twin must be deleted in the
version that was read, or not at all. The super cluster's scheduler may bind it at the same moment.
"""

import structlog

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.controllers import sync_up
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model.decide import DeleteGrounds
from syncer.model.keys import Key
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS, RejectedError
from syncer.rules.pods import node_selection, pod_status
from syncer.rules.registry import SyncedKind
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.safety.proven_deletes import DeleteTarget
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import PODS

FAILED_SCHEDULING = "FailedScheduling"
"""Reason of the Event, as a scheduler writes it."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def report_unschedulable(
    kind: SyncedKind, key: Key, pod: Object, problem: str, session: Session, *, tenant_x: Entry
) -> None:
    """Report to the tenant, as a scheduler would, that no node is left for a pod.

    The pod is checked again when the tenant's changes to its nodes differ.
    """
    body = pod_status.build_unschedulable_patch(pod, problem)
    if body is not None:
        seen = ObservedTenantObject(tenant_x, pod)
        await sync_up.write_tenant_object(
            kind, key, body, session, subresource="status", observed=seen
        )
    _log.info("tenant.unschedulable")
    await session.event_recorder.record(PODS, tenant_x, reason=FAILED_SCHEDULING, message=problem)


def is_outdated(pod: Object, twin: Object, session: Session) -> bool:
    """Return True if a twin that waits for a node would be built differently now."""
    return _find_outdated_annotation(pod, twin, session) is not None


def _find_outdated_annotation(pod: Object, twin: Object, session: Session) -> str | None:
    """Return the node choice of a new twin, if it differs from the recorded one.

    A tenant without changes to its nodes needs no such check.
    """
    recorded = str((twin["metadata"].get("annotations") or {}).get(wellknown.NODE_CHOICE, ""))
    if not (recorded or session.node_index.additions.nodes):
        return None
    nodes = session.view.policy.nodes
    try:
        choice = node_selection.select_nodes(
            pod["spec"],
            session.node_index.additions,
            nodes.view,
            pod["metadata"]["uid"],
            pool_keys=nodes.selector.keys(),
        )
    except (RejectedError, *MALFORMED_OBJECT_ERRORS):
        return None  # an accepted twin stays as it is
    wanted = choice.digest if choice is not None else ""
    return wanted if wanted != recorded else None


async def reject_by_node(
    kind: SyncedKind,
    key: Key,
    pod: Object,
    twin: Object,
    session: Session,
    *,
    tenant_x: Entry,
    super_x: Entry,
) -> bool:
    """Fail a pod with a node named by its tenant, if that node cannot run it, as its kubelet would.

    The twin is deleted first, because its status would revert the failure. Returns True if the pod
    was failed.
    """
    why = pod_status.find_kubelet_rejection(twin) if pod["spec"].get("nodeName") else None
    if why is None or session.store_guard.is_held:
        return False
    # The delete is counted before the status write. A tenant may refuse that, and the twin would be
    # recreated forever.
    is_deleted = await _delete_twin(
        key, "turned away", {"status": why.reason}, session, tenant_x=tenant_x, super_x=super_x
    )
    if not is_deleted:
        return False
    body = pod_status.build_rejected_patch(pod, why)
    await sync_up.write_tenant_object(kind, key, body, session, subresource="status")
    _log.info("tenant.node_rejected", reason=why.reason)
    return True


async def recreate_outdated(
    key: Key, pod: Object, twin: Object, session: Session, *, tenant_x: Entry, super_x: Entry
) -> bool:
    """Delete an outdated twin that waits for a node. Its end wakes the key.

    Returns True if that was tried. It is not tried while deletes are held or while it is parked.
    """
    wanted = _find_outdated_annotation(pod, twin, session)
    if wanted is None or session.store_guard.is_held:
        return False
    if not await _delete_twin(
        key, "placement", {"spec": wanted}, session, tenant_x=tenant_x, super_x=super_x
    ):
        return False
    _log.info("super.recreated")
    return True


async def _delete_twin(
    key: Key, reason: str, difference: Object, session: Session, *, tenant_x: Entry, super_x: Entry
) -> bool:
    """Delete a twin in the version seen. Returns False if that is parked for this reason."""
    target = DeleteTarget(key=key, resource=PODS, entry=super_x, grounds=DeleteGrounds.UNWANTED)
    return await session.proven_deletes.delete_unless_parked(
        WriteScope(key, SUPER_SIDE, reason),
        target,
        difference,
        before={},
        tenant_x=tenant_x,
        grace_seconds=0,
        as_seen=True,
        is_counted=True,
    )
