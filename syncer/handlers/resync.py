"""Periodic comparison of all sessions, for changes that events missed.

Owns the pace. Must not write: keys that differ go through the queue like any change. Hazard: the
resync must yield after a few keys. Otherwise it would delay live work in the same thread.
"""

import asyncio
import time

import structlog

from kubeio import Object
from syncer.controllers import cached_objects, sync_up
from syncer.controllers.cached_objects import ObjectPair
from syncer.controllers.pods import assign_cluster, node_selection, pod_networks
from syncer.controllers.pods import pod_reconciler as flow
from syncer.model import decide
from syncer.model.decide import CompareTwin, NoAction
from syncer.model.keys import (
    ADDRESS,
    ASSIGNMENT,
    NETWORK_CRD,
    NODE,
    QUOTA_REPORT,
    SERVICE_VARIABLES,
    TENANT_NETWORK,
    TOKEN,
    VOLUME,
    Key,
    get_tenant_namespace,
)
from syncer.model.mirrored_kinds import MIRRORS_BY_KIND
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS, ForbiddenObjectError, RejectedError
from syncer.placement.assignments import UNASSIGNED
from syncer.rules.pods import ephemeral_containers, lifecycle, pod_patch, pod_status, resize
from syncer.rules.pods.lifecycle import PodStep
from syncer.rules.registry import KeyReconciler, SyncedKind
from syncer.tenants.session import Session, Sessions

RESYNC_SECONDS = 300.0
_KEYS_PER_SLICE = 20  # keys per step, then other tasks run
_SLICE_PAUSE_SECONDS = 0.02
_ALWAYS_COMPARED = frozenset(
    {
        TOKEN,
        SERVICE_VARIABLES,
        NODE,
        ADDRESS,
        VOLUME,
        ASSIGNMENT,
        QUOTA_REPORT,
        NETWORK_CRD,
        TENANT_NETWORK,
    }
)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Resync:
    """Compares all sessions periodically."""

    def __init__(self, sessions: Sessions, *, period_seconds: float = RESYNC_SECONDS) -> None:
        self._sessions = sessions
        self._period = period_seconds

    async def run(self) -> None:
        """Compare periodically until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.resync_all()

    async def resync_all(self) -> None:
        """Compare all sessions once, and log the duration."""
        began, found = time.monotonic(), 0
        everyone = [each for own in self._sessions.values() for each in own.values()]
        for session in everyone:
            if not session.scope.is_unreachable:
                found += await self.resync_session(session)
        seconds = round(time.monotonic() - began, 3)
        _log.info("resync.finished", sessions=len(everyone), keys=found, seconds=seconds)

    async def resync_session(self, session: Session) -> int:
        """Queue every key of a session that differs. Returns their number."""
        found = 0
        for number, key in enumerate(session.all_keys.list_keys()):
            if not session.work.is_ready:
                break
            if _may_have_work(key, session):
                found += 1
                session.work.enqueue(key, low=True)
            if number % _KEYS_PER_SLICE == _KEYS_PER_SLICE - 1:
                await asyncio.sleep(_SLICE_PAUSE_SECONDS)
        if found:
            _log.info("resync.found", tenant=session.tenant.root, keys=found)
        return found


def _may_have_work(key: Key, session: Session) -> bool:
    """Return True if a key has work.

    An unreadable object counts, because its reconcile reports the problem.
    """
    try:
        return has_work(key, session)
    except MALFORMED_OBJECT_ERRORS as problem:
        _log.warning(
            "resync.failed", tenant=session.tenant.root, key=str(key), problem=repr(problem)
        )
        return True


def has_work(key: Key, session: Session) -> bool:
    """Return True if a key has work. Keys with timers and the few mirrored kinds always count."""
    if key.kind in _ALWAYS_COMPARED or key.kind in MIRRORS_BY_KIND:
        return True  # they read caches only and write on a difference
    kind = session.kinds.get(key.kind)
    if kind is None:
        return key.kind in session.ruled_mirrors or session.ruled.is_removed(key.kind)
    if not session.ruled.is_served(key.kind):
        return False
    pair = cached_objects.read_pair(kind, key, session)
    if session.twins.is_behind(key, pair.tenant_x, pair.super_x) or _is_assigned_elsewhere(
        pair, session
    ):
        return False
    action = decide.decide(
        pair.tenant_x,
        session.twins.build_state(pair.super_x, get_tenant_namespace(pair.key)),
        vc_uid=session.tenant.uid,
        wanted=pair.wanted,
        follows_mark=kind.deletes_with_mark,
    )
    if isinstance(action, CompareTwin):
        return _bodies_differ(kind, key, action, session)
    return not isinstance(action, NoAction)


def _is_assigned_elsewhere(pair: ObjectPair, session: Session) -> bool:
    """Return True if a pod is assigned to a different super cluster and has no twin in this one."""
    if pair.key.kind != "Pod" or pair.tenant_x is None or pair.super_x is not None:
        return False
    return session.connection.assignments.get_cluster(pair.tenant_x) not in (
        session.name,
        UNASSIGNED,
    )


def _bodies_differ(kind: SyncedKind, key: Key, both: CompareTwin, session: Session) -> bool:
    tenant_x, super_x = both.tenant_x.decode(), both.super_x.decode()
    if kind.reconciler is KeyReconciler.POD:
        return _pods_differ(tenant_x, super_x, key, session)
    try:
        twin = kind.build(tenant_x, session.view)
    except ForbiddenObjectError:
        return True  # the super cluster may have no twin of it
    except RejectedError:
        return False
    if kind.change(super_x, twin) is not None:
        return True
    if not session.connection.is_status_cluster(session.name, key.kind, both.tenant_x):
        return False
    shown = sync_up.build_shown(kind, tenant_x, super_x, session)
    return _differs_in_tenant(kind, key, tenant_x, shown, session)


def _differs_in_tenant(
    kind: SyncedKind, key: Key, tenant_x: Object, live: Object, session: Session
) -> bool:
    """Return True if a part that is synced back differs."""
    build_spec, build_status = kind.build_spec_up, kind.build_status_up
    if build_spec is not None and build_spec(tenant_x, live) is not None:
        return True
    types = session.synced_states.get_condition_types(key)
    return build_status is not None and build_status(tenant_x, live, types) is not None


def _pods_differ(pod: Object, twin: Object, key: Key, session: Session) -> bool:
    if (
        lifecycle.decide_step(lifecycle.build_pod_state(pod), flow.build_twin_state(twin, session))
        is not PodStep.SYNC
    ):
        return True
    pod = assign_cluster.strip_target_constraints(pod, session)
    return (
        _is_node_choice_outdated(pod, twin, session)
        or _is_changed_in_super(pod, twin, session)
        or pod_status.build_gate_patch(pod, twin) is not None
        or flow.build_status_patch(pod, twin, key, session) is not None
        or bool(pod_networks.build_status_changes(pod, twin, session))
    )


def _is_node_choice_outdated(pod: Object, twin: Object, session: Session) -> bool:
    is_waiting = not (twin["spec"].get("nodeName") or lifecycle.is_finished(twin))
    return is_waiting and node_selection.is_outdated(pod, twin, session)


def _is_changed_in_super(pod: Object, twin: Object, session: Session) -> bool:
    policy, metadata = session.view.policy, pod["metadata"]
    labels = session.namespaces.build_policy_labels(
        metadata["namespace"], metadata.get("labels") or {}
    )
    try:
        patch = pod_patch.build_running_patch(
            pod,
            twin,
            session.tenant,
            policy=policy,
            policy_labels=labels,
        )
        if patch is not None:
            return True
        return resize.build_patch(pod, twin) is not None or bool(
            ephemeral_containers.list_added(pod, twin)
        )
    except RejectedError:
        return False  # the tenant has had an Event when it changed
