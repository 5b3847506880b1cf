"""Periodic comparison of all sessions, for changes that events missed.

Owns the pace. Must not write: keys that differ go through the queue like any change. Hazard: the
resync must yield after a few keys. Otherwise it would delay live work in the same thread.
"""

import asyncio
import time

import structlog

from kubeio import Object
from syncer.controllers import sync_down
from syncer.controllers.pods import assign_cluster, node_selection
from syncer.controllers.pods import pod_reconciler as flow
from syncer.controllers.sync_down import Pair
from syncer.model import decide
from syncer.model.decide import Verdict as Decided
from syncer.model.keys import ADDRESS, NODE, PLACEMENT, TOKEN, VOLUME, Key, tenant_namespace
from syncer.model.mirrored_kinds import BY_KIND
from syncer.model.rejections import STUMBLES, RefusedError, RejectedError
from syncer.placement.assignments import NOWHERE
from syncer.rules import registry
from syncer.rules.pods import ephemeral_containers, lifecycle, pod_facts, pod_status, resize
from syncer.rules.pods.lifecycle import Step
from syncer.rules.registry import Kind, Life
from syncer.tenants.session import Session, Sessions

PERIOD_SECONDS = 300.0
_SLICE = 20  # keys per step, then other tasks run
_PAUSE_SECONDS = 0.02

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Patrol:
    """Compares all sessions periodically."""

    def __init__(self, sessions: Sessions, *, period_seconds: float = PERIOD_SECONDS) -> None:
        self._sessions = sessions
        self._period = period_seconds

    async def run(self) -> None:
        """Compare periodically until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.go_round()

    async def go_round(self) -> None:
        """Compare all sessions once, and log the duration."""
        began, found = time.monotonic(), 0
        everyone = [each for own in self._sessions.values() for each in own.values()]
        for session in everyone:
            if session.target is None or not session.target.problem:
                found += await self.look(session)
        seconds = round(time.monotonic() - began, 3)
        _log.info("patrol.round", sessions=len(everyone), keys=found, seconds=seconds)

    async def look(self, session: Session) -> int:
        """Queue every key of a session that differs. Returns their number."""
        found = 0
        for number, key in enumerate(session.all_keys()):
            if not session.is_ready:
                break
            if _may_differ(key, session):
                found += 1
                session.add(key, low=True)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(_PAUSE_SECONDS)
        if found:
            _log.info("patrol.found", tenant=session.tenant.root, keys=found)
        return found


def _may_differ(key: Key, session: Session) -> bool:
    """Return True if a key has work.

    An unreadable object counts, because its reconcile reports the problem.
    """
    try:
        return differs(key, session)
    except STUMBLES as problem:
        _log.warning(
            "patrol.stumbled", tenant=session.tenant.root, key=str(key), problem=repr(problem)
        )
        return True


def differs(key: Key, session: Session) -> bool:
    """Return True if a key has work. Keys with timers and the few mirrored kinds always count."""
    if key.kind in (TOKEN, NODE, ADDRESS, VOLUME, PLACEMENT) or key.kind in BY_KIND:
        return True  # they read caches only and write on a difference
    kind = registry.BY_NAME.get(key.kind)
    if kind is None:
        return False
    pair = sync_down.look(kind, key, session)
    if session.is_behind(key, pair.tenant_x, pair.super_x) or _is_elsewhere(pair, session):
        return False
    decision = decide.decide(
        decide.tenant_side(pair.tenant_x),
        session.super_side(pair.super_x, tenant_namespace(pair.key)),
        vc_uid=session.tenant.uid,
        wanted=pair.wanted,
        follows_mark=kind.follows_mark,
    )
    if decision.verdict is not Decided.COMPARE:
        return decision.verdict is not Decided.NOTHING
    return _bodies_differ(kind, pair, session)


def _is_elsewhere(pair: Pair, session: Session) -> bool:
    """Return True if a pod is assigned to a different super cluster and has no twin in this one."""
    if pair.key.kind != "Pod" or pair.tenant_x is None or pair.super_x is not None:
        return False
    return session.link.seats.of(pair.tenant_x) not in (session.name, NOWHERE)


def _bodies_differ(kind: Kind, pair: Pair, session: Session) -> bool:
    if pair.tenant_x is None or pair.super_x is None:
        return False
    tenant_x, super_x = pair.tenant_x.decode(), pair.super_x.decode()
    if kind.life is Life.POD:
        return _pods_differ(tenant_x, super_x, session)
    if kind.build is None or kind.change is None:
        return False
    try:
        twin = kind.build(tenant_x, session.view)
    except RefusedError:
        return True  # the super cluster may have no twin of it
    except RejectedError:
        return False
    ups, clean = (kind.up_spec, kind.up_status), session.scrubber.status(super_x)
    return kind.change(super_x, twin) is not None or any(
        function is not None and function(tenant_x, clean) is not None for function in ups
    )


def _pods_differ(pod: Object, twin: Object, session: Session) -> bool:
    if lifecycle.step(pod_facts.pod_side(pod), flow.twin_side(twin, session)) is not Step.FOLLOW:
        return True
    pod = assign_cluster.consumed(pod, session)
    return (
        _is_placed_otherwise(pod, twin, session)
        or _is_changed_below(pod, twin, session)
        or pod_status.gate_patch(pod, twin) is not None
        or flow.status_patch(pod, twin, session) is not None
    )


def _is_placed_otherwise(pod: Object, twin: Object, session: Session) -> bool:
    is_waiting = not (twin["spec"].get("nodeName") or pod_facts.is_finished(twin))
    return is_waiting and node_selection.is_outdated(pod, twin, session)


def _is_changed_below(pod: Object, twin: Object, session: Session) -> bool:
    passing = session.view.policy.metadata
    try:
        if pod_facts.running_patch(pod, twin, session.tenant, passing=passing) is not None:
            return True
        return resize.patch(pod, twin) is not None or bool(ephemeral_containers.added(pod, twin))
    except RejectedError:
        return False  # the tenant has had an Event when it changed
