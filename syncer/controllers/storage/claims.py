"""Reconciler of PersistentVolumeClaims: like any plain kind, but their data source must be synced.

Owns the conditions for a create. Must not know the claim's fields. Hazard: the twin of the tenant's
own source must exist before the claim is synced. A source is found by its name in the super
namespace, where a foreign object may have that name.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet, Result
from syncer.controllers import adoption, sync_down, sync_up
from syncer.controllers.sync_down import ObjectPair
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model.keys import VOLUME, Key
from syncer.model.references import ObjectReference
from syncer.model.rejections import RejectedError
from syncer.rules.registry import SyncedKind
from syncer.rules.storage import claim_status, claims
from syncer.tenants.session import Session

SOURCE_MISSING = "DataSourceMissing"
SOURCE_RETRY_SECONDS = 60.0
"""Retry interval in seconds for a missing source, if no event wakes the claim before."""


async def reconcile_claim(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one claim."""
    pair = sync_down.read_pair(kind, key, session)
    tenant_x = pair.tenant_x
    is_new = tenant_x is not None and not tenant_x.deleting and pair.super_x is None
    if tenant_x is not None and is_new and not session.is_behind(key, tenant_x, None):
        verdict = await _prepare_claim(kind, pair, tenant_x, session)
        if verdict is not None:
            return verdict
    return await sync_down.reconcile(kind, key, session)


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
    if source is None or _is_own_source(kind, pair.key, source, session):
        return None
    message = (
        f"spec.dataSource {source.kind} {source.name} does not exist yet. The claim is created"
        " when it exists (rule data-source)."
    )
    await session.event_recorder.record(
        kind.resource, tenant_x, reason=SOURCE_MISSING, message=message
    )
    raise NotReadyYet("the source of the claim is not synced yet", SOURCE_RETRY_SECONDS)


def _wait_for_references(key: Key, tenant_x: Entry, claim: Object, session: Session) -> None:
    """Queue a rejected claim again when its class or volume exists."""
    for kind, name in (
        ("StorageClass", claims.get_class(claim)),
        (VOLUME, claims.get_volume(tenant_x)),
    ):
        if name:
            session.add_waiter(session.build_key(kind, "", name), key)


def _is_own_source(kind: SyncedKind, key: Key, source: ObjectReference, session: Session) -> bool:
    other = session.build_key(claims.CLAIM, key.namespace, source.name)
    pair = sync_down.read_pair(kind, other, session)
    if pair.tenant_x is not None and session.is_twin(pair.super_x, pair.tenant_x.uid):
        return True
    session.add_waiter(other, key)
    return False
