"""Reconciler of PersistentVolumeClaims: like any plain kind, but their data source must be synced.

Owns the conditions for a create. Must not know the claim's fields. A source is a claim or a
snapshot. Hazard: the twin of the tenant's own source must exist before the claim is synced. A
source is found by its name in the super namespace, where a foreign object may have that name.
"""

import orjson

from kubeio import Object, errors
from kubeio.cache.store import Entry, parse_entry
from kubeio.controller.worker import NotReadyYet, Result
from syncer.controllers import adoption, cached_objects, sync_down, sync_up
from syncer.controllers.cached_objects import ObjectPair
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model import mirrored_kinds
from syncer.model.keys import VOLUME, Key
from syncer.model.references import ObjectReference
from syncer.model.rejections import RejectedError
from syncer.rules.registry import SyncedKind
from syncer.rules.storage import claim_status, claims, reclaim_policies, volumes
from syncer.rules.storage.reclaim_policies import ReclaimStep
from syncer.tenants.session import Session
from tenancy.resources import PERSISTENT_VOLUMES

VOLUME_RETRY_SECONDS = 1.0
"""Retry interval in seconds of a deleted claim whose volume has an unwritten reclaim policy."""


async def reconcile_claim(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one claim."""
    pair = cached_objects.read_pair(kind, key, session)
    tenant_x = pair.tenant_x
    is_new = tenant_x is not None and not tenant_x.deleting and pair.super_x is None
    if tenant_x is not None and is_new and not session.twins.is_behind(key, tenant_x, None):
        verdict = await _prepare_claim(kind, pair, tenant_x, session)
        if verdict is not None:
            return verdict
    if pair.super_x is not None and (tenant_x is None or tenant_x.deleting):
        await _await_reclaim_policy(pair.super_x, session)
    return await sync_down.reconcile(kind, key, session)


async def _await_reclaim_policy(super_x: Entry, session: Session) -> None:
    """Raise NotReadyYet while a reclaim policy that the tenant set is not written to the volume.

    Hazard: the volume of a deleted claim is read live in the tenant. Its event may come later than
    the event of the claim. Then Delete would still apply, and the data would be lost.
    """
    name = volumes.get_recorded_volume_name(super_x)
    shown_x = session.connection.home_cluster.volumes.get("", name) if name else None
    if shown_x is None:
        return
    try:
        live = await session.tenant_client.get(PERSISTENT_VOLUMES, name)
    except errors.NotFound:
        return
    key, tenant_x = session.build_key(VOLUME, "", name), parse_entry(orjson.dumps(live))
    step = reclaim_policies.decide_step(
        live,
        shown_x.decode(),
        session.view.policy.storage.reclaim_policies,
        session.synced_states.get_reclaim_policy(key),
    )
    if mirrored_kinds.is_own_mirror(tenant_x) and step is ReclaimStep.SYNC_DOWN:
        session.queue.add(key, first=True)
        raise NotReadyYet(
            "the reclaim policy of its volume is not synced yet", VOLUME_RETRY_SECONDS
        )


async def _prepare_claim(
    kind: SyncedKind, pair: ObjectPair, tenant_x: Entry, session: Session
) -> Result | None:
    """Check that a claim can be created.

    Returns the verdict to use if it cannot, otherwise None.
    """
    claim = tenant_x.decode()
    try:
        twin = claims.build_claim(claim, session.view)
    except RejectedError as rejected:
        await adoption.find_vanished_twin(
            kind, pair.key, session
        )  # a bound claim is refused if unseen
        _wait_for_references(pair.key, tenant_x, claim, session)
        if claim_status.is_claim_lost(claim, rejected.problems):
            body = {"metadata": {"uid": tenant_x.uid}, "status": {"phase": "Lost"}}
            seen = ObservedTenantObject(tenant_x, claim)
            await sync_up.write_tenant_object(
                kind, pair.key, body, session, subresource="status", observed=seen
            )
        return None
    source = claims.get_source(twin)
    if source is None or _is_own_source(pair.key, source, session):
        return None
    message = (
        f"spec.dataSource {source.kind} {source.name} does not exist yet. The claim is created"
        " when it exists (rule data-source)."
    )
    await session.event_recorder.record(
        kind.resource, tenant_x, reason=sync_down.SOURCE_MISSING, message=message
    )
    raise NotReadyYet("the source of the claim is not synced yet", sync_down.SOURCE_RETRY_SECONDS)


def _wait_for_references(key: Key, tenant_x: Entry, claim: Object, session: Session) -> None:
    """Queue a rejected claim again when its class or volume exists."""
    for kind, name in (
        ("StorageClass", claims.get_class(claim)),
        (VOLUME, claims.get_volume(tenant_x)),
    ):
        if name:
            session.work.add_waiter(session.build_key(kind, "", name), key)


def _is_own_source(key: Key, source: ObjectReference, session: Session) -> bool:
    other = session.build_key(source.kind, key.namespace, source.name)
    if cached_objects.has_own_twin(other, session):
        return True
    session.work.add_waiter(other, key)
    return False
