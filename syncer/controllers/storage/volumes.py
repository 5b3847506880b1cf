"""Reconciler of PersistentVolumes: shown from the super cluster, or the tenant's own synced.

Owns the writes of both, because they share a name in the tenant. Must not know the shown or allowed
fields. Hazards: a bound volume must be released before its deletion, because the tenant's own
controller keeps a bound one. A twin must be pinned to a claim. Otherwise any claim could bind it.
"""

import structlog

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.controllers import parked_writes, rejection_events, sync_down, sync_up
from syncer.controllers.mirrors import is_left, prove_gone, remove, show
from syncer.controllers.sync_down import Pair
from syncer.controllers.sync_up import Seen
from syncer.model import decide, mirrored_kinds
from syncer.model.decide import Verdict as Decided
from syncer.model.keys import Key
from syncer.model.mirrored_kinds import Shape
from syncer.model.rejections import RejectedError
from syncer.rules.registry import Flow, Kind, Method
from syncer.rules.storage import claims, volumes
from syncer.safety.expectations import BEHIND_SECONDS
from syncer.safety.hot_loop_guard import Part
from syncer.safety.proven_deletes import Target
from syncer.tenants.session import Session
from tenancy import names, wellknown
from tenancy.resources import PERSISTENT_VOLUMES

KIND = Kind(resource=PERSISTENT_VOLUMES, flow=Flow.DOWN_UP, method=Method.MERGE)
"""Kind for reports about a volume. It has no row in the table, because its claim names the
owner.
"""

SHAPE = Shape(PERSISTENT_VOLUMES, ("spec",))

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Reconcile one volume."""
    tenant_x = session.stores[key.kind].get("", key.name)
    twin = session.link.home.volumes.get("", names.volume(session.tenant.uid, key.name))
    if session.is_behind(key, tenant_x, twin):
        return Again(BEHIND_SECONDS)
    own = tenant_x if tenant_x is not None and not mirrored_kinds.is_ours(tenant_x) else None
    if own is not None or twin is not None:
        verdict = await _down(Pair(key=key, tenant_x=own, super_x=twin, wanted=True), session)
        if not isinstance(verdict, Done):
            return verdict
    return await _up(key, tenant_x, session)


# --- to the tenant --------------------------------------------------------------------------------


async def _up(key: Key, tenant_x: Entry | None, session: Session) -> Verdict:
    """Show the volume of this name that a claim of the tenant is bound to."""
    super_x = session.link.home.volumes.get("", key.name)
    claim = volumes.claim_below(super_x, session.view) if super_x is not None else None
    if super_x is None or claim is None:
        if tenant_x is None or not mirrored_kinds.is_ours(tenant_x):
            return Done()
        if super_x is None:
            await prove_gone(PERSISTENT_VOLUMES, key, session)
        return await _take_away(key, tenant_x, session)
    live = super_x.decode()
    wanted = volumes.shown(live, claim)
    if tenant_x is None or not mirrored_kinds.is_shown(tenant_x.decode(), wanted, SHAPE.fields):
        # Its echo wakes this key again, and then the status is written.
        verdict = await show(SHAPE, key, wanted, tenant_x, session)
        if tenant_x is None or not mirrored_kinds.is_ours(tenant_x):
            return verdict
        if not is_left(key, wanted, tenant_x, session):
            return verdict
    elif mirrored_kinds.is_ours(tenant_x):
        parked_writes.settled(key, parked_writes.TENANT, session)
    if mirrored_kinds.is_ours(tenant_x):
        await _say_phase(key, tenant_x, volumes.phase_of(live), session)
    return Done()


async def _say_phase(key: Key, tenant_x: Entry, phase: str, session: Session) -> bool:
    own = tenant_x.decode()
    body = volumes.phase_patch(own, phase)
    if body is None:
        parked_writes.settled(key, parked_writes.TENANT, session, "status")
        return False
    seen = Seen(tenant_x, own)
    await sync_up.write(KIND, key, body, session, subresource="status", seen=seen)
    return True


async def _take_away(key: Key, tenant_x: Entry, session: Session) -> Verdict:
    if volumes.phase_of(tenant_x.decode()) == "Bound":
        await _say_phase(key, tenant_x, "Released", session)
    return await remove(PERSISTENT_VOLUMES, key, tenant_x, session)


# --- to the super cluster -------------------------------------------------------------------------


async def _down(pair: Pair, session: Session) -> Verdict:
    """Sync a volume that the tenant wrote, once a claim needs it."""
    own, twin = pair.tenant_x, pair.super_x
    claim = _claim_of(own, session) if own is not None else None
    decision = decide.decide(
        decide.tenant_side(own),
        session.super_side(twin),
        vc_uid=session.tenant.uid,
        wanted=claim is not None,
    )
    if decision.grounds is not None:
        assert twin is not None  # noqa: S101 - decided on it
        await session.deletions.delete(
            Target(key=pair.key, resource=PERSISTENT_VOLUMES, entry=twin, grounds=decision.grounds)
        )
        return Done()  # its end wakes this key
    if own is None:
        return Done()
    if own.deleting:
        if volumes.phase_of(own.decode()) == "Bound" and twin is None:
            await _say_phase(pair.key, own, "Released", session)
        return Done()
    match decision.verdict:
        case Decided.FOREIGN:
            return await sync_down.name_taken(KIND, pair, session)
        case Decided.WAIT:
            raise Wait("the twin of an earlier volume is on its way out")
        case Decided.CREATE | Decided.COMPARE:
            return await _carry(pair, own, claim, session)
    return await _unclaimed(pair, own, session)


def _claim_of(own: Entry, session: Session) -> tuple[str, str] | None:
    """Return the tenant claim of a volume: the volume names it, or a claim names the volume."""
    found = volumes.claim_named(own)
    if found is None:
        index = session.stores[claims.CLAIM].index(claims.BY_VOLUME, own.name)
        found = min((entry.key for entry in index), default=None)
    if found is None or session.stores["Namespace"].get("", found[0]) is None:
        return None
    return found


async def _built(
    own: Entry, claim: tuple[str, str] | None, space: Entry | None, session: Session
) -> Object | None:
    try:
        return volumes.volume(own.decode(), claim, space, session.view)
    except RejectedError as rejected:
        await rejection_events.tell_rejected(KIND, own, rejected.problems, session)
        return None


async def _unclaimed(pair: Pair, own: Entry, session: Session) -> Verdict:
    """Report the phase of a volume without claim, or its rejection."""
    if await _built(own, None, None, session) is not None:
        await _say_phase(pair.key, own, "Available", session)
    return Done()


async def _carry(
    pair: Pair, own: Entry, claim: tuple[str, str] | None, session: Session
) -> Verdict:
    assert claim is not None  # noqa: S101 - decided on it
    if await _built(own, claim, None, session) is None:
        return Done()
    try:
        space = session.ready_namespace(session.key(claims.CLAIM, *claim))
    except Wait:
        session.wait_for(session.key("Namespace", "", claim[0]), pair.key)
        raise
    twin = await _built(own, claim, space, session)
    if twin is None:
        return Done()
    if pair.super_x is None:
        return await sync_down.post(KIND, pair, twin, session)
    live = pair.super_x.decode()
    body, part = volumes.patch(live, twin, own.decode()), Part(pair.key, parked_writes.SUPER)
    if body is None:
        parked_writes.settled(pair.key, parked_writes.SUPER, session)
    elif not parked_writes.is_parked(part, body, live, session):
        sync_down.stamp(body, own)
        written = await session.super_client.patch(
            PERSISTENT_VOLUMES, pair.super_x.name, body, field_manager=wellknown.SYNCER
        )
        sync_down.noted(pair.key, written, own, session)
        _log.debug("super.changed")
        await parked_writes.tried(
            part,
            body,
            before=live,
            answer=written,
            resource=PERSISTENT_VOLUMES,
            tenant_x=own,
            session=session,
        )
        return Done()
    return await _tell_bound(pair, own, live, claim, session)


async def _tell_bound(
    pair: Pair, own: Entry, live: Object, claim: tuple[str, str], session: Session
) -> Verdict:
    """Write the claim and phase of a volume to the tenant, as its own binder would."""
    tenant_claim = session.stores[claims.CLAIM].get(*claim)
    before = own.decode()
    body = volumes.claim_up(before, live, tenant_claim)
    if body is not None:
        await sync_up.write(KIND, pair.key, body, session, seen=Seen(own, before))
    else:
        parked_writes.settled(pair.key, parked_writes.TENANT, session)
    await _say_phase(pair.key, own, volumes.phase_of(live), session)
    return Done()
