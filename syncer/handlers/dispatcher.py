"""Dispatch of a key to its reconciler.

Owns the dispatch only. A key of a tenant that is not connected, or not ready yet, is dropped,
because the start of a session queues every key.
"""

from collections.abc import Awaitable, Callable, Mapping

from kubeio.controller.worker import Again, Done, Verdict
from syncer.controllers import (
    disruption_budgets,
    events,
    mirrors,
    namespaces,
    sync_down,
    tenant_status,
)
from syncer.controllers.network import cluster_ips, services
from syncer.controllers.nodes import node_reconciler, target_lease, target_node_reconciler
from syncer.controllers.pods import (
    assign_cluster,
    pod_reconciler,
    tokens,
    unreachable_target,
)
from syncer.controllers.storage import claims, volumes
from syncer.model.keys import (
    ADDRESS,
    EVENT,
    HOME,
    LEASE,
    NODE,
    PLACEMENT,
    STORE,
    TOKEN,
    VOLUME,
    Key,
)
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules import registry
from syncer.rules.registry import Kind, Life
from syncer.tenants.session import Session, Sessions

_BY_LIFE: Mapping[Life, Callable[[Kind, Key, Session], Awaitable[Verdict]]] = {
    Life.PLAIN: sync_down.reconcile,
    Life.NAMESPACE: namespaces.reconcile,
    Life.SERVICE: services.reconcile,
    Life.CLAIM: claims.reconcile,
    Life.BUDGET: disruption_budgets.reconcile,
    Life.POD: pod_reconciler.reconcile,
}
_BY_KEY: Mapping[str, Callable[[Key, Session], Awaitable[Verdict]]] = {
    TOKEN: tokens.reconcile,
    ADDRESS: cluster_ips.reconcile,
    EVENT: events.reconcile,
    NODE: node_reconciler.reconcile,
    PLACEMENT: assign_cluster.reconcile,
    STORE: tenant_status.reconcile,
    VOLUME: volumes.reconcile,
    **{mirror.resource.kind: mirrors.reconcile for mirror in MIRRORS},
}
_BY_KEY_AT_TARGETS: Mapping[str, Callable[[Key, Session], Awaitable[Verdict]]] = {
    TOKEN: tokens.reconcile,
    EVENT: events.reconcile,
    LEASE: target_lease.reconcile,
    NODE: target_node_reconciler.reconcile,
}
_NO_SESSIONS: Mapping[str, Session] = {}


class Engine:
    """Runs the keys of all present sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def session(self, key: Key) -> Session | None:
        """Return the session of a key.

        None if its tenant is not connected to that super cluster.
        """
        return self._sessions.get(key.super_cluster, _NO_SESSIONS).get(key.tenant)

    async def reconcile(self, key: Key) -> Verdict:
        """Reconcile one key."""
        session = self.session(key)
        if session is None or not session.is_ready:
            return Done()
        pause = session.fuse.pause(key)
        if pause > 0:
            return Again(pause)
        session.began()
        try:
            by_key = _BY_KEY if session.target is None else _BY_KEY_AT_TARGETS
            run = by_key.get(key.kind)
            if session.target is not None and session.target.problem and key.kind != NODE:
                verdict = await unreachable_target.reconcile(key, session)
            elif run is not None:
                verdict = await run(key, session)
            else:
                kind = registry.BY_NAME[key.kind]
                verdict = await _BY_LIFE[kind.life](kind, key, session)
        finally:
            session.ended()
            if session.expectations.worked_on(key):
                sync_down.wake(registry.BY_NAME[key.kind], key, session)
        session.figures.settled(key)
        return verdict


def log_fields(key: Key) -> dict[str, str]:
    """Return the log fields of a key."""
    return {
        "tenant": key.tenant,
        **({} if key.super_cluster == HOME else {"super_cluster": key.super_cluster}),
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
    }
