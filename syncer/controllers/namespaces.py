"""Reconciler of namespaces: like any plain kind, then the syncer's access, then the pods' account.

Owns the order: Secrets wait until the RoleBinding of the namespace lets the syncer read them. Pods
wait until the account and the default network policies exist. Hazard: an account with secrets or a
mounted token must be reset. Otherwise every pod of the namespace would get them.
"""

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, Result
from syncer.controllers import cached_objects, quotas, sync_down
from syncer.model.keys import DEFAULT_POLICY, Key
from syncer.rules import namespaces
from syncer.rules.registry import SyncedKind
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import ROLE_BINDINGS, SERVICE_ACCOUNTS


async def reconcile_namespace(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one namespace and its account."""
    verdict = await _reconcile_with_account(kind, key, session)
    quotas.enqueue_namespace_quota(key.name, session)
    return verdict


async def _reconcile_with_account(kind: SyncedKind, key: Key, session: Session) -> Result:
    verdict = await sync_down.reconcile(kind, key, session)
    pair = cached_objects.read_pair(kind, key, session)
    tenant_x, below = pair.tenant_x, session.view.get_super_namespace(key.name)
    if tenant_x is None or not isinstance(verdict, Done):
        return verdict
    if pair.super_x is None or pair.super_x.deleting:
        return verdict  # its own creation wakes this key
    if not session.twins.is_twin(pair.super_x, tenant_x.uid):
        return verdict
    await _ensure_secret_access(key, tenant_x, session)
    wanted = namespaces.build_workload_account(session.view, tenant_x.decode())
    live = session.twins.get_store("ServiceAccount").get(below, names.WORKLOAD_ACCOUNT)
    if live is None:
        try:
            await session.writer.create_super_object(key, SERVICE_ACCOUNTS, wanted, is_part=True)
        except errors.AlreadyExists:
            return await _restore_account(key, wanted, session)
    elif not namespaces.is_account_powerless(live.decode()):
        return await _restore_account(key, wanted, session)
    for name in names.DEFAULT_POLICIES:
        session.work.enqueue(session.build_key(DEFAULT_POLICY, key.name, name))
    return Done()


async def _ensure_secret_access(key: Key, tenant_x: Entry, session: Session) -> None:
    """Create the RoleBinding if the server refuses the Secrets of the super namespace.

    A platform administrator may have changed an existing one. The watch then repeats its attempts,
    and the log has the server's answer.
    """
    cluster, below = session.super_cluster, session.view.get_super_namespace(key.name)
    if not cluster.secrets.is_refused(below):
        return
    subject = await cluster.fetch_subject()
    wanted = namespaces.build_secret_access(
        session.view, tenant_x.decode(), role=cluster.namespace_role, subject=subject
    )
    try:
        await session.writer.create_super_object(key, ROLE_BINDINGS, wanted, is_part=True)
    except errors.AlreadyExists:
        return
    cluster.secrets.start(below)


async def _restore_account(key: Key, wanted: dict[str, object], session: Session) -> Result:
    """Remove all rights from the account.

    The namespace is the syncer's, so its accounts are, too.
    """
    powerless = {**wanted, "secrets": None, "imagePullSecrets": None}
    await session.writer.patch_super_part(key, SERVICE_ACCOUNTS, powerless)
    return Done()
