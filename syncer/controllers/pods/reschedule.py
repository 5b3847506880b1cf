"""Rescheduling of a pod for which no node is found: one assignment ends before the next begins.

Owns the time when an assignment ends, and the proof that its cluster has no twin left. Must not
choose. Hazards: a bound twin must keep its assignment, because a scheduler may bind it at the same
moment. After a create without answer, the assignment must be kept until the create can no longer
take effect. Otherwise there would be two pods.
"""

import time
from datetime import UTC, datetime

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import cached_objects
from syncer.controllers.pods import candidates
from syncer.model import decide
from syncer.model.keys import Key
from syncer.model.unstructured import as_mapping
from syncer.placement.reschedule_states import RescheduleState
from syncer.rules import events
from syncer.rules.placement import cluster_scheduler, reschedule_timeouts
from syncer.rules.placement.cluster_scheduler import NoFit
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import PODS

SCALE_UP_REASON = "TriggeredScaleUp"
"""Reason of an autoscaler's Event."""
UNREACHABLE_RETRY_SECONDS = 30.0
"""Retry interval in seconds for a cluster that is away."""
_SOON_SECONDS = 1.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def try_reschedule(
    key: Key, tenant_x: Entry, pod: Object, assigned: str, session: Session
) -> Result:
    """End an assignment without a suitable node, if there is another candidate."""
    there = candidates.get_session_in(assigned, session)
    if there is None or there.scope.is_unreachable:
        return Done()  # an attempt that may have reached that cluster stays
    if not session.connection.grants.is_offered(assigned):
        return _close_assignment(
            key, tenant_x, assigned, there, session
        )  # with or without another candidate
    return _decide_reschedule(key, tenant_x, pod, there, session)


def _decide_reschedule(
    key: Key, tenant_x: Entry, pod: Object, there: Session, session: Session
) -> Result:
    assignments, assigned = session.connection.assignments, there.name
    state, now = assignments.get_reschedule_state(tenant_x.uid), session.now()
    if not state.is_refused:
        left = _compute_seconds_left(key, there, state, now)
        if left is None:
            return Done()
        if left > 0:
            return RequeueAfter(left)
    if now < state.retry_at:
        return RequeueAfter(state.retry_at - now)
    state.record_tried(assigned)
    ask = candidates.build_requirements(tenant_x, pod, session)
    offered = candidates.list_candidates(tenant_x, session)
    found = cluster_scheduler.choose_cluster(ask, offered, state.tried_clusters)
    if isinstance(found, NoFit):
        state.start_over(now + reschedule_timeouts.RETRY_ALL_SECONDS)
        found = cluster_scheduler.choose_cluster(ask, offered)
        if isinstance(found, NoFit) or found.name == assigned:
            return RequeueAfter(reschedule_timeouts.RETRY_ALL_SECONDS)
    return _close_assignment(key, tenant_x, assigned, there, session)


def _close_assignment(
    key: Key, tenant_x: Entry, assigned: str, there: Session, session: Session
) -> Result:
    _log.info("tenant.rescheduled", target=assigned)
    session.connection.assignments.close_assignment(tenant_x)
    there.work.enqueue(candidates.build_pod_key(key, there))
    return RequeueAfter(_SOON_SECONDS)


def _compute_seconds_left(
    key: Key, there: Session, state: RescheduleState, now: float
) -> float | None:
    """Return how long the twin is still waited for in seconds. None: it has no problem."""
    twin = cached_objects.read_pair(
        there.kinds[PODS.kind], candidates.build_pod_key(key, there), there
    ).super_x
    if twin is None:
        return None
    scaling = state.get_scale_up_age(now)
    return reschedule_timeouts.compute_seconds_left(
        twin.decode(), datetime.now(UTC), scaling=scaling
    )


async def wait_until_left(
    key: Key, tenant_x: Entry, assigned: str, session: Session
) -> Result | None:
    """Wait until a cluster that a pod is leaving has no twin. Returns None if that is proved."""
    assignments, there = (
        session.connection.assignments,
        candidates.get_session_in(assigned, session),
    )
    if there is None or there.scope.is_unreachable:
        return RequeueAfter(UNREACHABLE_RETRY_SECONDS)
    pod_key, state, now = (
        candidates.build_pod_key(key, there),
        assignments.get_reschedule_state(tenant_x.uid),
        session.now(),
    )
    twin = cached_objects.read_pair(there.kinds[PODS.kind], pod_key, there).super_x
    is_own = twin is not None and there.twins.is_twin(twin, tenant_x.uid)
    if is_own and twin is not None and as_mapping(twin.decode().get("spec")).get("nodeName"):
        assignments.reassign(tenant_x, assigned)  # it was bound at the same moment, and stays
        there.work.enqueue(pod_key)
        return Done()
    if is_own or session.queue.is_processing(pod_key):
        there.work.enqueue(pod_key)
        return RequeueAfter(_SOON_SECONDS)
    unanswered = state.get_unanswered_age(now)
    if unanswered is not None and unanswered < reschedule_timeouts.UNANSWERED_CREATE_SECONDS:
        return RequeueAfter(reschedule_timeouts.UNANSWERED_CREATE_SECONDS - unanswered)
    there.scope.check_losses_not_held()  # before thousands of live reads
    try:
        live = await there.super_client.get(
            PODS,
            key.name,
            namespace=there.view.get_super_namespace(key.namespace),
            metadata_only=True,
        )
    except errors.NotFound:
        await there.scope.prove_missing(time.monotonic())  # after the read
        state.clear_unanswered_create()
        return None  # unassigned until `take` is called
    if decide.is_owned(live["metadata"], there.tenant, tenant_x.uid):
        raise NotReadyYet("the twin exists, the cache is behind", CACHE_BEHIND_SECONDS)
    return None  # a foreign pod has the name in that cluster


def watch_unschedulable(tenant_x: Entry, twin: Object, session: Session) -> None:
    """Queue the placement of a pod whose scheduler finds no node."""
    if session.connection.assignments.is_split and reschedule_timeouts.is_unschedulable(twin):
        candidates.enqueue_assignment(tenant_x, session)


def record_failed_create(problem: errors.KubeError, tenant_x: Entry, session: Session) -> None:
    """Record the result of a create that was not answered with its object."""
    if not session.connection.assignments.is_split or not candidates.is_pod_current(
        tenant_x, session
    ):
        return
    state = session.connection.assignments.get_reschedule_state(tenant_x.uid)
    if isinstance(problem, errors.Forbidden) and "exceeded quota" in problem.server_message:
        state.record_refused()
        candidates.enqueue_assignment(tenant_x, session)
    elif isinstance(problem, errors.Unavailable) and not isinstance(problem, errors.NotSent):
        state.record_unanswered_create(session.now())


def record_scale_up(event: Object, namespace: str, session: Session) -> None:
    """Record that an autoscaler adds nodes for a pod. `namespace` is the tenant's."""
    if not session.connection.assignments.is_split or event.get("reason") != SCALE_UP_REASON:
        return
    kind, _, name, _ = events.get_regarding(event)
    if kind == PODS.kind:
        entry = session.stores[PODS.kind].get(namespace, name)
        if entry is not None:
            state = session.connection.assignments.get_reschedule_state(entry.uid)
            state.record_scale_up(session.now())
