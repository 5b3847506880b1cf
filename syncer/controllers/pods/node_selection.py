"""A pod and the nodes that its tenant leaves it: held without any, made anew for others.

Owns the effects. Must not know how nodes are chosen. The super cluster's scheduler judges a twin by
the nodes' names that were written into it once, so a twin that waits for a node is replaced when
its tenant's labels, taints or cordons would write others; and one whose tenant named the node has
failed when that node cannot have it, as no scheduler would look for it again. Hazard: the super
cluster's scheduler may bind a twin in the very moment; so it is deleted in the version that was
looked at, or not at all.
"""

import structlog

from kubeio import Object
from syncer.controllers import parked_writes, sync_up
from syncer.controllers.sync_down import Pair
from syncer.controllers.sync_up import Seen
from syncer.model.decide import Grounds
from syncer.model.rejections import STUMBLES, RejectedError
from syncer.rules.pods import node_selection, pod_status
from syncer.rules.registry import Kind
from syncer.safety.hot_loop_guard import Part
from syncer.safety.proven_deletes import Target
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import PODS

FAILED = "FailedScheduling"
"""Reason of the Event, as a scheduler writes it."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def hold(kind: Kind, pair: Pair, pod: Object, problem: str, session: Session) -> None:
    """Tell the tenant, as a scheduler would, that no node is left for a pod.

    It is looked at again when what the tenant added to its nodes changes.
    """
    assert pair.tenant_x is not None  # noqa: S101 - the caller made up the twin from it
    body = pod_status.unschedulable(pod, problem)
    if body is not None:
        seen = Seen(pair.tenant_x, pod)
        await sync_up.write(kind, pair.key, body, session, subresource="status", seen=seen)
    _log.info("tenant.unplaced")
    await session.notices.tell(PODS, pair.tenant_x, reason=FAILED, message=problem)


def is_outdated(pod: Object, twin: Object, session: Session) -> bool:
    """Tell whether a twin that waits for a node would be made otherwise now."""
    return _otherwise(pod, twin, session) is not None


def _otherwise(pod: Object, twin: Object, session: Session) -> str | None:
    """Return what a twin made now would record, if that is not what this one does.

    For tenants that added nothing to their nodes that is no question.
    """
    recorded = str((twin["metadata"].get("annotations") or {}).get(wellknown.NODE_CHOICE, ""))
    if not (recorded or session.nodes.additions.nodes):
        return None
    view = session.view.policy.nodes.view
    try:
        uid = pod["metadata"]["uid"]
        choice = node_selection.choose(pod["spec"], session.nodes.additions, view, uid)
    except (RejectedError, *STUMBLES):
        return None  # what was let through stays as it was
    wanted = choice.digest if choice is not None else ""
    return wanted if wanted != recorded else None


async def is_turned_away(
    kind: Kind, pair: Pair, pod: Object, twin: Object, session: Session
) -> bool:
    """End a pod whose tenant named its node when that cannot have it, as its kubelet would.

    The twin goes first: what it says would put the end back. Tells whether it came to that.
    """
    why = pod_status.rejection(twin) if pod["spec"].get("nodeName") else None
    if why is None or session.holds_deletes:
        return False
    part, told = Part(pair.key, parked_writes.SUPER, "turned away"), {"status": why.reason}
    if parked_writes.is_parked(part, told, {}, session):
        return False
    await _delete(pair, session)
    # Before the end is written: a tenant may refuse that, and would have it made anew for ever.
    await _tried(part, told, pair, session)
    body = pod_status.rejected(pod, why)
    await sync_up.write(kind, pair.key, body, session, subresource="status")
    _log.info("tenant.turned_away", reason=why.reason)
    return True


async def is_made_anew(pair: Pair, pod: Object, twin: Object, session: Session) -> bool:
    """Delete a twin that waits for a node and is outdated; its end wakes the key.

    Tells whether that was tried: not while deletes are held, nor again and again for nothing.
    """
    part = Part(pair.key, parked_writes.SUPER, "placement")
    wanted = _otherwise(pod, twin, session)
    if wanted is None:
        return False
    body = {"spec": wanted}
    if session.holds_deletes or parked_writes.is_parked(part, body, {}, session):
        return False
    await _delete(pair, session)
    _log.info("super.placed_anew")
    await _tried(part, body, pair, session)
    return True


async def _tried(part: Part, body: Object, pair: Pair, session: Session) -> None:
    """Count that a twin was deleted for this."""
    await parked_writes.tried(
        part,
        body,
        before={},
        answer=body,
        resource=PODS,
        tenant_x=pair.tenant_x,
        session=session,
    )


async def _delete(pair: Pair, session: Session) -> None:
    assert pair.super_x is not None  # noqa: S101 - it was looked at
    target = Target(key=pair.key, resource=PODS, entry=pair.super_x, grounds=Grounds.UNWANTED)
    await session.deletions.delete(target, grace_seconds=0, as_seen=True)
    session.fuse.wrote(pair.key)
