"""From a key to the flow that runs it.

Owns the dispatch and nothing else. A key of a tenant that is not engaged, or not ready yet, is
dropped: engaging queues every key anew.
"""

from collections.abc import Awaitable, Callable, Mapping

from kubeio.controller.worker import Again, Done, Verdict
from syncer import downward, kinds
from syncer.flows import (
    addresses,
    away,
    claims,
    disruption_budgets,
    events,
    mirrors,
    namespaces,
    nodes,
    placement,
    pods,
    services,
    store,
    target_leases,
    target_nodes,
    tokens,
    volumes,
)
from syncer.keys import ADDRESS, EVENT, HOME, LEASE, NODE, PLACEMENT, STORE, TOKEN, VOLUME, Key
from syncer.kinds import Kind, Life
from syncer.mirrors import MIRRORS
from syncer.session import Session, Sessions

_BY_LIFE: Mapping[Life, Callable[[Kind, Key, Session], Awaitable[Verdict]]] = {
    Life.PLAIN: downward.reconcile,
    Life.NAMESPACE: namespaces.reconcile,
    Life.SERVICE: services.reconcile,
    Life.CLAIM: claims.reconcile,
    Life.BUDGET: disruption_budgets.reconcile,
    Life.POD: pods.reconcile,
}
_BY_KEY: Mapping[str, Callable[[Key, Session], Awaitable[Verdict]]] = {
    TOKEN: tokens.reconcile,
    ADDRESS: addresses.reconcile,
    EVENT: events.reconcile,
    NODE: nodes.reconcile,
    PLACEMENT: placement.reconcile,
    STORE: store.reconcile,
    VOLUME: volumes.reconcile,
    **{mirror.resource.kind: mirrors.reconcile for mirror in MIRRORS},
}
_BY_KEY_AT_TARGETS: Mapping[str, Callable[[Key, Session], Awaitable[Verdict]]] = {
    TOKEN: tokens.reconcile,
    EVENT: events.reconcile,
    LEASE: target_leases.reconcile,
    NODE: target_nodes.reconcile,
}
_NO_SESSIONS: Mapping[str, Session] = {}


class Engine:
    """Runs keys of whatever sessions there are."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def session(self, key: Key) -> Session | None:
        """Return the session of a key; None when its tenant is not engaged there."""
        return self._sessions.get(key.super_cluster, _NO_SESSIONS).get(key.tenant)

    async def reconcile(self, key: Key) -> Verdict:
        """Bring one key in step."""
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
                verdict = await away.reconcile(key, session)
            elif run is not None:
                verdict = await run(key, session)
            else:
                kind = kinds.BY_NAME[key.kind]
                verdict = await _BY_LIFE[kind.life](kind, key, session)
        finally:
            session.ended()
            if session.expectations.worked_on(key):
                downward.wake(kinds.BY_NAME[key.kind], key, session)
        session.figures.settled(key)
        return verdict


def log_fields(key: Key) -> dict[str, str]:
    """Return how a key is named in logs."""
    return {
        "tenant": key.tenant,
        **({} if key.super_cluster == HOME else {"super_cluster": key.super_cluster}),
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
    }
