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
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.controllers import sync_down
from syncer.controllers.pods import candidates
from syncer.model import decide
from syncer.model.keys import Key
from syncer.model.unstructured import mapping
from syncer.placement.assignments import Trial
from syncer.rules import events, registry
from syncer.rules.placement import cluster_scheduler, reschedule_timeouts
from syncer.rules.placement.cluster_scheduler import Nowhere
from syncer.safety.expectations import BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import PODS

SCALES_UP = "TriggeredScaleUp"
"""Reason of an autoscaler's Event."""
AWAY_SECONDS = 30.0
"""Retry interval in seconds for a cluster that is away."""
_SOON_SECONDS = 1.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def look(key: Key, tenant_x: Entry, pod: Object, seat: str, session: Session) -> Verdict:
    """End an assignment without a suitable node, if there is another candidate."""
    seats, there = session.link.seats, candidates.session_at(seat, session)
    if there is None or (there.target is not None and there.target.problem):
        return Done()  # an attempt that may have reached that cluster stays
    if not seats.offers(seat):
        return _leave(key, tenant_x, seat, there, session)  # with or without another candidate
    return _look(key, tenant_x, pod, there, session)


def _look(key: Key, tenant_x: Entry, pod: Object, there: Session, session: Session) -> Verdict:
    seats, seat = session.link.seats, there.name
    trial, now = seats.trial(tenant_x.uid), session.now()
    if not trial.is_refused:
        left = _seconds_left(key, there, trial, now)
        if left is None:
            return Done()
        if left > 0:
            return Again(left)
    if now < trial.rests_until:
        return Again(trial.rests_until - now)
    trial.tried.add(seat)
    trial.is_refused, trial.scaling_at = False, None
    ask = candidates.ask_of(tenant_x, pod, session)
    offered = candidates.of(tenant_x, session)
    found = cluster_scheduler.choose(ask, offered, trial.tried)
    if isinstance(found, Nowhere):
        trial.tried.clear()
        trial.rests_until = now + reschedule_timeouts.REST_SECONDS
        found = cluster_scheduler.choose(ask, offered)
        if isinstance(found, Nowhere) or found.name == seat:
            return Again(reschedule_timeouts.REST_SECONDS)
    return _leave(key, tenant_x, seat, there, session)


def _leave(key: Key, tenant_x: Entry, seat: str, there: Session, session: Session) -> Verdict:
    _log.info("tenant.tried", target=seat)
    session.link.seats.leave(tenant_x)
    there.add(candidates.pod_key(key, there))
    return Again(_SOON_SECONDS)


def _seconds_left(key: Key, there: Session, trial: Trial, now: float) -> float | None:
    """Return how long the twin is still waited for in seconds. None: it has no problem."""
    twin = sync_down.look(
        registry.BY_NAME[PODS.kind], candidates.pod_key(key, there), there
    ).super_x
    if twin is None:
        return None
    scaling = now - trial.scaling_at if trial.scaling_at is not None else None
    return reschedule_timeouts.seconds_left(twin.decode(), datetime.now(UTC), scaling=scaling)


async def leave(key: Key, tenant_x: Entry, seat: str, session: Session) -> Verdict | None:
    """Wait until a cluster that a pod is leaving has no twin. Returns None if that is proved."""
    seats, there = session.link.seats, candidates.session_at(seat, session)
    if there is None or (there.target is not None and there.target.problem):
        return Again(AWAY_SECONDS)
    pod_key, trial, now = candidates.pod_key(key, there), seats.trial(tenant_x.uid), session.now()
    twin = sync_down.look(registry.BY_NAME[PODS.kind], pod_key, there).super_x
    is_own = twin is not None and there.is_twin(twin, tenant_x.uid)
    if is_own and twin is not None and mapping(twin.decode().get("spec")).get("nodeName"):
        seats.move(tenant_x, seat)  # it was bound at the same moment, and stays
        there.add(pod_key)
        return Done()
    if is_own or session.queue.has_in_hand(pod_key):
        there.add(pod_key)
        return Again(_SOON_SECONDS)
    if trial.unsure_at is not None and now - trial.unsure_at < reschedule_timeouts.UNSURE_SECONDS:
        return Again(reschedule_timeouts.UNSURE_SECONDS - (now - trial.unsure_at))
    if there.target is not None:
        there.target.muster.check(there.tenant.uid)  # before thousands of live reads
    try:
        live = await there.super_client.get(
            PODS,
            key.name,
            namespace=there.view.super_namespace(key.namespace),
            metadata_only=True,
        )
    except errors.NotFound:
        if there.target is not None:
            await there.target.prove(time.monotonic(), there.tenant.uid)  # after the read
        trial.unsure_at = None
        return None  # unassigned until `take` is called
    if decide.is_owned(live["metadata"], there.tenant, tenant_x.uid):
        raise Wait("the twin is there after all, the cache is behind", BEHIND_SECONDS)
    return None  # a foreign pod has the name in that cluster


def watch(tenant_x: Entry, twin: Object, session: Session) -> None:
    """Queue the placement of a pod whose scheduler finds no node."""
    if session.link.seats.is_split and reschedule_timeouts.is_waiting(twin):
        candidates.place_soon(tenant_x, session)


def failed(problem: errors.KubeError, tenant_x: Entry, session: Session) -> None:
    """Record the result of a create that was not answered with its object."""
    if not session.link.seats.is_split or not candidates.is_there(tenant_x, session):
        return
    trial = session.link.seats.trial(tenant_x.uid)
    if isinstance(problem, errors.Forbidden) and "exceeded quota" in problem.said:
        trial.is_refused = True
        candidates.place_soon(tenant_x, session)
    elif isinstance(problem, errors.Unavailable) and not isinstance(problem, errors.NotSent):
        trial.unsure_at = session.now()


def heard(event: Object, namespace: str, session: Session) -> None:
    """Record that an autoscaler adds nodes for a pod. `namespace` is the tenant's."""
    kind, _, name, _ = events.regards(event)
    if event.get("reason") == SCALES_UP and kind == PODS.kind:
        entry = session.stores[PODS.kind].get(namespace, name)
        if entry is not None:
            session.link.seats.trial(entry.uid).scaling_at = session.now()
