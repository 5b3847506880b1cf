"""Reconciler of pods: created in the super cluster, bound and synced back, and deleted in order.

Owns the writes of each step of `syncer.rules.pods.lifecycle`. Must not know how objects are built.
Hazard: a twin that is missing in the cache must be read live before the tenant pod is deleted or
marked lost. Otherwise a running pod would be reported lost.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.controllers import adoption, parked_writes, rejection_events, sync_down, sync_up
from syncer.controllers.nodes import drain, node_reconciler, target_node_reconciler
from syncer.controllers.pods import (
    assign_cluster,
    create,
    node_selection,
    reschedule,
    split_services,
    unreachable_target,
    update,
)
from syncer.controllers.sync_down import Pair
from syncer.controllers.sync_up import Seen
from syncer.model import decide
from syncer.model.decide import Grounds
from syncer.model.decide import Verdict as Decided
from syncer.model.keys import Key, tenant_namespace
from syncer.rules.pods import lifecycle, pod_facts, pod_status
from syncer.rules.pods.lifecycle import PodSide, Step, TwinSide
from syncer.rules.registry import Kind
from syncer.safety.expectations import BEHIND_SECONDS, Side
from syncer.safety.proven_deletes import Target
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import PODS

TAKEN_AWAY = "SuperPodDeleted"
"""Reason of the Event about a pod that the super cluster deletes. The kubelet may not report it."""
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Both(NamedTuple):
    """An existing pod, decoded, with its own twin if it has one."""

    kind: Kind
    pair: Pair
    session: Session
    tenant_x: Entry
    pod: Object
    side: PodSide
    super_x: Entry | None
    twin: Object | None

    @property
    def key(self) -> Key:
        """The key in work."""
        return self.pair.key


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Reconcile one pod."""
    pair = sync_down.look(kind, key, session)
    tenant_x, super_x = pair.tenant_x, pair.super_x
    if session.is_behind(key, tenant_x, super_x):
        return Again(BEHIND_SECONDS)
    if tenant_x is not None and session.link.seats.is_split:
        verdict = await assign_cluster.elsewhere(kind, pair, session)
        if verdict is not None:
            return verdict
    if tenant_x is None or not _is_own_or_none(pair, session):
        return await _apart(kind, pair, session)
    pod = tenant_x.decode()
    is_own = super_x is not None and session.is_twin(super_x, tenant_x.uid)
    twin = super_x.decode() if super_x is not None and is_own else None
    side = pod_facts.pod_side(
        pod,
        had_twin=session.lost_twins.had_bound_twin(tenant_x.uid),
        was_taken=session.lost_twins.saw_twin_deleted(tenant_x.uid),
    )
    step = lifecycle.step(side, twin_side(twin, session) if twin is not None else None)
    both = Both(
        kind=kind,
        pair=pair,
        session=session,
        tenant_x=tenant_x,
        pod=assign_cluster.consumed(pod, session),
        side=side,
        super_x=super_x if is_own else None,
        twin=twin,
    )
    return await _STEPS[step](both)


def twin_side(twin: Object, session: Session) -> TwinSide:
    """Return the lifecycle facts of a super pod, with the tenant's name of its node."""
    side = pod_facts.twin_side(twin)
    return side._replace(node=session.shown_node(side.node)) if side.node else side


def _is_own_or_none(pair: Pair, session: Session) -> bool:
    """Return True if the pod's own lifecycle decides, not a foreign pod with its name."""
    assert pair.tenant_x is not None  # noqa: S101 - asked only then
    return (
        pair.super_x is None
        or pair.tenant_x.deleting
        or session.is_twin(pair.super_x, pair.tenant_x.uid)
    )


async def _apart(kind: Kind, pair: Pair, session: Session) -> Verdict:
    """Handle a super pod without tenant pod, or one that is foreign or another pod's twin."""
    decision = decide.decide(
        decide.tenant_side(pair.tenant_x),
        session.super_side(pair.super_x, tenant_namespace(pair.key)),
        vc_uid=session.tenant.uid,
    )
    match decision.verdict, decision.grounds:
        case Decided.DELETE, Grounds() as grounds:
            forced = session.deletions.was_forced(pair.key, _recorded(pair, session))
            grace = 0 if forced else None
            return await sync_down.delete(kind, pair, grounds, session, grace_seconds=grace)
        case Decided.FOREIGN, _:
            return await sync_down.name_taken(kind, pair, session)
        case Decided.WAIT, _:
            raise Wait("the twin of an earlier pod is on its way out")
    await adoption.look(kind, pair.key, session)
    return Done()


def _recorded(pair: Pair, session: Session) -> str:
    """Return the UID of the tenant pod that a super pod records."""
    side = session.super_side(pair.super_x)
    return side.uid if side is not None else ""


# --- the steps ------------------------------------------------------------------------------------


async def _nothing(both: Both) -> Verdict:
    await adoption.look(both.kind, both.key, both.session)
    return await drain.look(both.tenant_x, both.side, both.session)  # still assigned


async def _create(both: Both) -> Verdict:
    if pod_facts.is_held(both.pod):
        return Done()
    assign_cluster.check(both.tenant_x, both.session)
    try:
        return await create.create(both.kind, both.pair, both.pod, both.session)
    except errors.KubeError as problem:
        reschedule.failed(problem, both.tenant_x, both.session)
        raise


async def _wait(_: Both) -> Verdict:
    raise Wait("the twin is on its way out, a new one follows")


async def _follow(both: Both) -> Verdict:
    twin, session = both.twin, both.session
    problem: errors.ApiError | Wait | None = None
    assert twin is not None  # noqa: S101 - the step says so
    node = twin["spec"].get("nodeName") or ""
    is_bound_now = False
    waits = not (node or both.side.deleting or pod_facts.is_finished(twin))
    if waits and (
        await node_selection.is_turned_away(both.kind, both.pair, both.pod, twin, session)
        or await node_selection.is_made_anew(both.pair, both.pod, twin, session)
    ):
        return Done()
    if waits:
        reschedule.watch(both.tenant_x, twin, session)
    if not both.side.deleting:
        is_bound_now = bool(node) and not both.side.node
        if is_bound_now:
            await _bind(both, node)
            both = both._replace(pod=_bound(both.pod, node))
        twin, problem = await update.carry_down(both.kind, both.pair, both.pod, twin, session)
    if not (is_bound_now and pod_status.is_scheduled_only(twin)):
        await _carry_up(both, twin, session)
    await create.demand_tokens(both.pod, twin, session)
    if isinstance(problem, Wait):
        raise problem
    await rejection_events.tell_refusal(both.kind, both.tenant_x, problem, session)
    if is_bound_now:
        await split_services.look(both.tenant_x, session)
    return await drain.look(both.tenant_x, both.side, session)


async def _bind(both: Both, node: str) -> None:
    """Bind the tenant pod, after its node exists."""
    if both.session.target is None:
        await node_reconciler.present(node, both.key, both.session)
    else:
        await target_node_reconciler.present(both.key, both.session)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": both.key.name,
            "namespace": both.key.namespace,
            "uid": both.tenant_x.uid,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": both.session.shown_node(node)},
    }
    await both.session.tenant_client.create(
        PODS, binding, name=both.key.name, subresource="binding", field_manager=wellknown.SYNCER
    )
    both.session.expectations.changed(Side.TENANT, both.key, both.tenant_x, taken=True)
    _log.debug("tenant.bound", node=node)


def _bound(pod: Object, node: str) -> Object:
    """Return a tenant pod after its binding, without the effect on the status."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def status_patch(pod: Object, twin: Object, session: Session) -> Object | None:
    """Return the merge patch of a tenant pod's status, or None if it equals the twin's."""
    # If the real nodes are not shown, the tenant knows none of their names.
    node = (twin["spec"].get("nodeName") or "") if session.target is None else ""
    return pod_status.status_patch(
        pod,
        session.scrubber.status(twin, node=node),
        pod_facts.names_between(pod, twin, session.tenant),
        hidden=pod_facts.hidden_status(session.view.policy),
    )


async def _carry_up(both: Both, twin: Object, session: Session) -> None:
    body = status_patch(both.pod, twin, session)
    if body is None:
        parked_writes.settled(both.key, parked_writes.TENANT, session, "status")
        return
    seen = Seen(both.tenant_x, both.pod)
    try:
        await sync_up.write(both.kind, both.key, body, session, subresource="status", seen=seen)
    except errors.Invalid:
        rest = pod_status.without_containers(body)
        if rest is None:
            _log.info("tenant.status_refused")
        else:
            await sync_up.write(both.kind, both.key, rest, session, subresource="status", seen=seen)


async def _delete_twin(both: Both) -> Verdict:
    assert both.super_x is not None  # noqa: S101 - the step says so
    assert both.twin is not None  # noqa: S101 - the step says so
    await both.session.deletions.delete(
        Target(key=both.key, resource=PODS, entry=both.super_x, grounds=Grounds.MARKED),
        grace_seconds=pod_facts.grace_down(both.side),
    )
    return Done()  # the twin's status until its end comes with its events


async def _evict(both: Both) -> Verdict:
    """Report a deletion by the super cluster, and delete the tenant pod with the same grace."""
    assert both.twin is not None  # noqa: S101 - the step says so
    await _carry_up(both, both.twin, both.session)
    await _follow_out(both, pod_facts.twin_side(both.twin).grace_seconds)
    return Done()


async def _taken(both: Both) -> Verdict:
    """Delete a tenant pod without grace period, because its super pod has already vanished."""
    await _prove_gone(both)
    await _follow_out(both, 0)
    return Done()


async def _follow_out(both: Both, grace_seconds: int | None) -> None:
    ending = "its controller makes another" if both.side.has_controller else "nothing replaces it"
    message = f"The cluster that runs this pod takes it away, so it is deleted; {ending}"
    await both.session.notices.tell(PODS, both.tenant_x, reason=TAKEN_AWAY, message=message)
    await _delete_tenant_pod(both, grace_seconds=grace_seconds)
    _log.info("tenant.evicted", grace=grace_seconds)


async def _finish(both: Both) -> Verdict:
    if not both.session.lost_twins.saw_twin_end(both.tenant_x.uid):
        await _prove_gone(both)
    await _delete_tenant_pod(both, grace_seconds=0)
    return Done()


async def _lost(both: Both) -> Verdict:
    await _prove_gone(both)
    await sync_up.write(
        both.kind, both.key, pod_status.lost(both.pod), both.session, subresource="status"
    )
    _log.warning("tenant.lost")
    return Done()


async def _collect(both: Both) -> Verdict:
    await _delete_tenant_pod(both, grace_seconds=0)
    return Done()


async def _misplaced(both: Both) -> Verdict:
    message = f"spec.nodeName {both.side.node} is not where the pod runs; it is removed"
    await both.session.notices.tell(PODS, both.tenant_x, reason="NodeMismatch", message=message)
    await _delete_tenant_pod(both, grace_seconds=None)
    return Done()


async def _prove_gone(both: Both) -> None:
    """Read the twin live. Raises Wait if it exists, or while conclusions are held."""
    target, tenant = both.session.target, both.session.tenant.uid
    if target is not None:
        await unreachable_target.tell_of_doubt(both.tenant_x, both.session)
        target.muster.check(tenant)  # before thousands of live reads
    try:
        live = await both.session.super_client.get(
            PODS,
            both.key.name,
            namespace=both.session.view.super_namespace(both.key.namespace),
            metadata_only=True,
        )
    except errors.NotFound:
        if target is not None:
            await target.prove(time.monotonic(), tenant)  # after the read
        return
    if decide.is_owned(live["metadata"], both.session.tenant, both.tenant_x.uid):
        await adoption.put_labels_back(both.kind, live["metadata"], both.session)
        raise Wait("the twin lives, the cache is behind", BEHIND_SECONDS)


async def _delete_tenant_pod(both: Both, *, grace_seconds: int | None) -> None:
    """Delete the tenant pod. Raises Wait if it has a new twin since the decision.

    Requests were sent meanwhile, and another writer may have created a twin. That twin is synced.
    """
    twin = sync_down.look(both.kind, both.key, both.session).super_x
    is_known = twin is None or (both.super_x is not None and both.super_x.uid == twin.uid)
    if not is_known and both.session.is_twin(twin, both.tenant_x.uid):
        raise Wait("the twin is another one by now", BEHIND_SECONDS)
    try:
        answer = await both.session.tenant_client.delete(
            PODS,
            both.key.name,
            namespace=both.key.namespace,
            uid=both.tenant_x.uid,
            grace_seconds=grace_seconds,
        )
    except errors.NotFound:
        return
    gone = answer.get("kind") == "Status"
    version = "" if gone else str(answer["metadata"].get("resourceVersion") or "")
    both.session.expectations.deleted(
        Side.TENANT, both.key, both.tenant_x, version, taken=grace_seconds == 0
    )


_STEPS: Mapping[Step, Callable[[Both], Awaitable[Verdict]]] = {
    Step.NOTHING: _nothing,
    Step.CREATE: _create,
    Step.FOLLOW: _follow,
    Step.DELETE_TWIN: _delete_twin,
    Step.EVICT: _evict,
    Step.FINISH: _finish,
    Step.TAKEN: _taken,
    Step.LOST: _lost,
    Step.COLLECT: _collect,
    Step.MISPLACED: _misplaced,
    Step.WAIT: _wait,
}
