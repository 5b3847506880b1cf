"""Dispatch of a key to its reconciler.

Owns the dispatch only. A key of a tenant that is not connected, or not ready yet, is dropped,
because the start of a session queues every key.
"""

from collections.abc import Awaitable, Callable, Mapping

from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers import (
    cached_objects,
    disruption_budgets,
    events,
    mirrors,
    namespaces,
    quotas,
    ruled_kinds,
    sync_down,
    tenant_status,
)
from syncer.controllers.network import (
    attachments,
    cluster_ips,
    default_policies,
    network_crds,
    services,
    tenant_networks,
)
from syncer.controllers.nodes import node_reconciler, target_lease, target_node_reconciler
from syncer.controllers.pods import (
    assign_cluster,
    pod_reconciler,
    pod_variables,
    tokens,
    unreachable_target,
)
from syncer.controllers.storage import claims, volumes
from syncer.model.keys import (
    ADDRESS,
    ASSIGNMENT,
    DEFAULT_POLICY,
    EVENT,
    HOME,
    LEASE,
    LIMIT_RANGE,
    NETWORK_CRD,
    NODE,
    QUOTA_REPORT,
    RESOURCE_QUOTA,
    SERVICE_VARIABLES,
    TENANT_NETWORK,
    TENANT_STATUS,
    TOKEN,
    VOLUME,
    Key,
)
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules.registry import KeyReconciler, SyncedKind
from syncer.safety.quota_accounting import QuotaExceededError
from syncer.tenants.session import Session, Sessions
from syncer.tenants.target_session import TargetSession

_BY_RECONCILER: Mapping[KeyReconciler, Callable[[SyncedKind, Key, Session], Awaitable[Result]]] = {
    KeyReconciler.PLAIN: sync_down.reconcile,
    KeyReconciler.NAMESPACE: namespaces.reconcile_namespace,
    KeyReconciler.SERVICE: services.reconcile_service,
    KeyReconciler.CLAIM: claims.reconcile_claim,
    KeyReconciler.BUDGET: disruption_budgets.reconcile_budget,
    KeyReconciler.ATTACHMENT: attachments.reconcile_attachment,
    KeyReconciler.POD: pod_reconciler.reconcile_pod,
}
_BY_KEY_KIND: Mapping[str, Callable[[Key, Session], Awaitable[Result]]] = {
    TOKEN: tokens.reconcile_token,
    SERVICE_VARIABLES: pod_variables.reconcile_service_variables,
    DEFAULT_POLICY: default_policies.reconcile_default_policy,
    TENANT_NETWORK: tenant_networks.reconcile_tenant_network,
    NETWORK_CRD: network_crds.reconcile_network_crd,
    ADDRESS: cluster_ips.reconcile_address,
    EVENT: events.reconcile_event,
    NODE: node_reconciler.reconcile_node,
    ASSIGNMENT: assign_cluster.reconcile_assignment,
    RESOURCE_QUOTA: quotas.reconcile_namespace_quota,
    LIMIT_RANGE: quotas.reconcile_namespace_quota,
    QUOTA_REPORT: quotas.reconcile_report,
    TENANT_STATUS: tenant_status.reconcile_tenant_status,
    VOLUME: volumes.reconcile_volume,
    **{mirror.resource.kind: mirrors.reconcile_mirror for mirror in MIRRORS},
}
_BY_KEY_KIND_AT_TARGETS: Mapping[str, Callable[[Key, TargetSession], Awaitable[Result]]] = {
    TOKEN: tokens.reconcile_token,
    SERVICE_VARIABLES: pod_variables.reconcile_service_variables,
    DEFAULT_POLICY: default_policies.reconcile_default_policy,
    EVENT: events.reconcile_event,
    LEASE: target_lease.reconcile_lease,
    NODE: target_node_reconciler.reconcile_target_node,
}
_NO_SESSIONS: Mapping[str, Session] = {}


class Dispatcher:
    """Runs the keys of all present sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def get_session(self, key: Key) -> Session | None:
        """Return the session of a key.

        None if its tenant is not connected to that super cluster.
        """
        return self._sessions.get(key.super_cluster, _NO_SESSIONS).get(key.tenant)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one key."""
        session = self.get_session(key)
        if session is None or not session.work.is_ready:
            return Done()
        pause = session.hot_loop_guard.get_pause(key)
        if pause > 0:
            return RequeueAfter(pause)
        session.work.keys_in_work.start()
        verdict: Result | None = None
        held = False
        try:
            if isinstance(session, TargetSession):
                verdict = await _reconcile_in_target(key, session)
            else:
                verdict = await _reconcile_at_home(key, session)
        except QuotaExceededError as problem:
            held = True
            verdict = await quotas.hold_key(key, problem, session)
        finally:
            session.work.keys_in_work.finish()
            if not held:
                session.quota.finish_key(key, is_done=isinstance(verdict, Done))
            if session.expectations.finish_key(key) and key.kind in session.kinds:
                cached_objects.enqueue(session.kinds[key.kind], key, session)
        session.metrics.clear_suspicion(key)
        if isinstance(verdict, Done):
            session.synced_states.pop_deletion(key)  # the object is not shown any longer
        return verdict


async def _reconcile_at_home(key: Key, session: Session) -> Result:
    run = _BY_KEY_KIND.get(key.kind)
    if run is None and key.kind not in session.super_cluster.kinds:
        run = ruled_kinds.reconcile_ruled_kind
    return await (run(key, session) if run is not None else _reconcile_kind(key, session))


async def _reconcile_in_target(key: Key, session: TargetSession) -> Result:
    if session.scope.is_unreachable and key.kind != NODE:
        return await unreachable_target.reconcile_unreachable_pod(key, session)
    run = _BY_KEY_KIND_AT_TARGETS.get(key.kind)
    if run is None and key.kind not in session.super_cluster.kinds:
        return await ruled_kinds.reconcile_ruled_kind(key, session)
    return await (run(key, session) if run is not None else _reconcile_kind(key, session))


def _reconcile_kind(key: Key, session: Session) -> Awaitable[Result]:
    kind = session.kinds[key.kind]
    return _BY_RECONCILER[kind.reconciler](kind, key, session)


def build_log_fields(key: Key) -> dict[str, str]:
    """Return the log fields of a key."""
    return {
        "tenant": key.tenant,
        **({} if key.super_cluster == HOME else {"super_cluster": key.super_cluster}),
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
    }
