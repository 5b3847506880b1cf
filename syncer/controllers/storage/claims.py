"""Reconciler of PersistentVolumeClaims: like any plain kind, but their data source must be synced.

Owns the conditions for a create. Must not know the claim's fields. Hazard: the twin of the tenant's
own source must exist before the claim is synced. A source is found by its name in the super
namespace, where a foreign object may have that name.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import Verdict, Wait
from syncer.controllers import adoption, sync_down, sync_up
from syncer.controllers.sync_down import Pair
from syncer.controllers.sync_up import Seen
from syncer.model.keys import VOLUME, Key
from syncer.model.references import Ref
from syncer.model.rejections import RejectedError
from syncer.rules.registry import Kind
from syncer.rules.storage import claim_status, claims
from syncer.tenants.session import Session

SOURCE_MISSING = "DataSourceMissing"
LOOK_AGAIN_SECONDS = 60.0
"""Retry interval in seconds for a missing source, if no event wakes the claim before."""


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Reconcile one claim."""
    pair = sync_down.look(kind, key, session)
    tenant_x = pair.tenant_x
    is_new = tenant_x is not None and not tenant_x.deleting and pair.super_x is None
    if tenant_x is not None and is_new and not session.is_behind(key, tenant_x, None):
        verdict = await _prepare(kind, pair, tenant_x, session)
        if verdict is not None:
            return verdict
    return await sync_down.reconcile(kind, key, session)


async def _prepare(kind: Kind, pair: Pair, tenant_x: Entry, session: Session) -> Verdict | None:
    """Check that a claim can be created.

    Returns the verdict to use if it cannot, otherwise None.
    """
    claim = tenant_x.decode()
    try:
        twin = claims.claim(claim, session.view)
    except RejectedError as rejected:
        await adoption.look(kind, pair.key, session)  # a bound claim is refused if unseen
        _wait_for_what_it_names(pair.key, tenant_x, claim, session)
        if claim_status.is_lost(claim, rejected.problems):
            body = {"metadata": {"uid": tenant_x.uid}, "status": {"phase": "Lost"}}
            seen = Seen(tenant_x, claim)
            await sync_up.write(kind, pair.key, body, session, subresource="status", seen=seen)
        return None
    source = claims.source_of(twin)
    if source is None or _is_own_source(kind, pair.key, source, session):
        return None
    message = (
        f"spec.dataSource {source.kind} {source.name} is not there yet; the claim is made once it"
        " is (rule data-source)"
    )
    await session.notices.tell(kind.resource, tenant_x, reason=SOURCE_MISSING, message=message)
    raise Wait("the claim to be filled from is not below yet", LOOK_AGAIN_SECONDS)


def _wait_for_what_it_names(key: Key, tenant_x: Entry, claim: Object, session: Session) -> None:
    """Queue a rejected claim again when its class or volume exists."""
    for kind, name in (
        ("StorageClass", claims.class_of(claim)),
        (VOLUME, claims.volume_named(tenant_x)),
    ):
        if name:
            session.wait_for(session.key(kind, "", name), key)


def _is_own_source(kind: Kind, key: Key, source: Ref, session: Session) -> bool:
    other = session.key(claims.CLAIM, key.namespace, source.name)
    pair = sync_down.look(kind, other, session)
    if pair.tenant_x is not None and session.is_twin(pair.super_x, pair.tenant_x.uid):
        return True
    session.wait_for(other, key)
    return False
