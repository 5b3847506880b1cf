"""Reconciler of kinds that SyncRules declare.

Owns the choice among copy, mirror and removal. Copies are reconciled by `sync_down`, and mirrors
are written by `mirrors`, as for the kinds of the registry. Hazard: without complete caches on both
sides nothing may be concluded. Otherwise a CRD that is missing for a moment deletes every copy.
"""

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import cached_objects, mirrors, sync_down, sync_up
from syncer.model import mirrored_kinds
from syncer.model.keys import Key
from syncer.placement.assignments import UNASSIGNED
from syncer.rules.custom.ruled_kinds import RuledMirror
from syncer.rules.registry import SyncedKind
from syncer.rules.storage import claims
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.proven_deletes import build_own_target
from syncer.tenants.session import Session
from tenancy.resources import PODS
from tenancy.sync_rules.selection import select_rules
from tenancy.sync_rules.specs import SyncRule

NAMESPACE_RETRY_SECONDS = 30.0
"""Retry interval in seconds for an object whose namespace the tenant does not have."""
UNSERVED_RETRY_SECONDS = 30.0
"""Retry interval in seconds for an object whose kind a target does not serve."""
NOT_SERVED = "NotServedInTarget"


async def reconcile_ruled_kind(key: Key, session: Session) -> Result:
    """Reconcile one key."""
    mirror = session.ruled_mirrors.get(key.kind)
    if mirror is not None:
        return await _reconcile_mirror(mirror, key, session)
    row = session.kinds.get(key.kind)
    if row is None:
        return await _delete_copy(key, session)
    if not session.ruled.is_served(key.kind):
        return await _report_unserved(row, key, session)
    if _awaits_placement(row, key, session):
        return RequeueAfter(NAMESPACE_RETRY_SECONDS)
    await _wait_for_claims(row, key, session)
    return await sync_down.reconcile(row, key, session)


async def _report_unserved(row: SyncedKind, key: Key, session: Session) -> Result:
    """Report an object whose kind a target does not serve. The list of either side queues it."""
    tenant_x = session.stores[key.kind].get(key.namespace, key.name)
    if (
        session.is_home  # its rule is not Ready, and the next session lacks the kind
        or tenant_x is None
        or not row.is_wanted(tenant_x, session.view)
        or not session.scope.is_concerned(key.kind, tenant_x)
    ):
        return Done()
    if session.super_cluster.ruled.describe_unserved(key.kind):
        message = (
            f"The cluster of the node {session.scope.get_shown_node('')} does not serve {key.kind}"
            f" objects, so pods there run without this one. Ask your platform administrator to"
            f" install the kind there and to grant the syncer its rights (rule not-served)."
        )
        await session.event_recorder.record(
            row.resource, tenant_x, reason=NOT_SERVED, message=message
        )
    return RequeueAfter(UNSERVED_RETRY_SECONDS)


def _awaits_placement(row: SyncedKind, key: Key, session: Session) -> bool:
    """Return whether an unneeded copy stays, because a pod of its namespace has no cluster yet.

    After a restart no pod has one, and each copy would be deleted and created again.
    """
    if key.kind not in session.connection.ruled.pod_followers:
        return False
    pair = cached_objects.read_pair(row, key, session)
    if pair.tenant_x is None or pair.super_x is None or pair.wanted:
        return False
    assignments = session.connection.assignments
    pods = session.stores[PODS.kind].list(key.namespace)
    return any(assignments.get_cluster(pod) == UNASSIGNED for pod in pods)


async def _wait_for_claims(row: SyncedKind, key: Key, session: Session) -> None:
    """Raise Wait while a claim that an object names is not synced.

    An existing copy stays. It was created for the claim of that time.
    """
    pair = cached_objects.read_pair(row, key, session)
    tenant_x = pair.tenant_x
    if row.list_awaited is None or tenant_x is None or tenant_x.deleting or not pair.wanted:
        return
    if pair.super_x is not None or session.twins.is_behind(key, tenant_x, None):
        return
    for field, namespace, name in row.list_awaited(tenant_x.decode()):
        other = session.build_key(claims.CLAIM, namespace, name)
        if not cached_objects.has_own_twin(other, session):
            session.work.add_waiter(other, key)
            message = (
                f"{field}: the claim {name} is not in the super cluster yet. This object is created"
                " there when the claim is. Create the claim, or name another one"
                " (rule claim-missing)."
            )
            await session.event_recorder.record(
                row.resource, tenant_x, reason=sync_down.SOURCE_MISSING, message=message
            )
            raise NotReadyYet(
                "a claim that the object names is not synced", sync_down.SOURCE_RETRY_SECONDS
            )


async def _delete_copy(key: Key, session: Session) -> Result:
    """Delete a copy whose rule no longer applies to the tenant, if its removal policy is Delete."""
    store = session.super_cluster.stores.get(key.kind)
    if not session.ruled.is_removed(key.kind) or store is None or not store.synced:
        return Done()
    below = session.view.get_super_namespace(key.namespace)
    found = store.get(below, key.name)
    rule = session.super_cluster.ruled.get_rule(key.kind)
    state = session.twins.build_state(found, key.namespace)
    if found is None or rule is None or state is None or state.vc_uid != session.tenant.uid:
        return Done()
    if not rule.is_deleting and _is_selected(rule, session):
        return Done()  # the next session has the kind
    if not found.deleting:
        await session.proven_deletes.delete_proven(build_own_target(key, rule.resource, found))
    return Done()


def _is_selected(rule: SyncRule, session: Session) -> bool:
    """Return whether a rule applies to the tenant of a session, which began without it."""
    tenant = session.tenant
    declared = session.connection.home_cluster.virtual_clusters.get(tenant.namespace, tenant.name)
    labels = declared.labels if declared is not None else {}
    return bool(select_rules((rule,), session.view.policy, labels))


async def _reconcile_mirror(mirror: RuledMirror, key: Key, session: Session) -> Result:
    """Show one object of the super cluster, or delete it from the tenant."""
    store = session.stores[key.kind]
    caches = session.connection.home_cluster.ruled
    if not store.synced or not caches.is_source_synced(key.kind):
        return Done()
    tenant_x = store.get(key.namespace, key.name)
    if session.twins.is_behind(key, tenant_x, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    source = mirror.get_source(key.namespace)
    super_x = caches.get_source(key.kind, source, key.name) if source is not None else None
    if super_x is not None and mirror.is_selected(super_x, session.view):
        live = super_x.decode()
        wanted = mirror.build(live, session.view)
        try:
            result = await mirrors.write_mirror(mirror.shape, key, wanted, tenant_x, session)
        except errors.NotFound:
            return RequeueAfter(NAMESPACE_RETRY_SECONDS)  # the tenant has no such namespace
        if tenant_x is not None and mirrored_kinds.is_own_mirror(tenant_x):
            await _write_status(mirror, key, tenant_x, live, session)
        return result
    if tenant_x is None or not mirrored_kinds.is_own_mirror(tenant_x):
        return Done()
    if super_x is None and source is not None:
        await _prove_absent(mirror, key, source, session)
    return await mirrors.delete_mirror(mirror.shape.resource, key, tenant_x, session)


async def _write_status(
    mirror: RuledMirror, key: Key, tenant_x: Entry, live: Object, session: Session
) -> None:
    """Write the shown status of a mirror. A write that changed the mirror queues the key again."""
    build, own = mirror.row.build_status_up, tenant_x.decode()
    if build is None or not mirrored_kinds.is_mirror_current(
        own, mirror.build(live, session.view), mirror.shape.fields
    ):
        return
    live = sync_up.build_shown(mirror.row, own, live, session)
    bare = {**own, "status": {}}
    await sync_up.write_status(
        mirror.row,
        key,
        build(own, live, ()),
        lambda: build(bare, live, ()) or {},
        session,
        observed=sync_up.ObservedTenantObject(tenant_x, own),
    )


async def _prove_absent(mirror: RuledMirror, key: Key, source: str, session: Session) -> None:
    """Raise Wait if the super object exists. Absence from a cache may be out of date."""
    try:
        await session.super_client.get(
            mirror.shape.resource, key.name, namespace=source, metadata_only=True
        )
    except errors.NotFound:
        return
    raise NotReadyYet("the super object exists, the cache is behind", CACHE_BEHIND_SECONDS)
