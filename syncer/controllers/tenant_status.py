"""A tenant's store, and what is said about the tenant: one key for each link.

Owns when the brake looks, when a person's word is taken, when the epoch is counted up, and the
conditions on the VirtualCluster. Must not judge: `syncer.safety.store_guard` does. Hazard: a
confirmation is used up by being taken, or it would release the next loss, too.
"""

from kubeio.controller.worker import Again, Done, Verdict
from syncer.controllers import parked_writes
from syncer.model.keys import HOME, Key
from syncer.safety import confirmations
from syncer.safety.store_guard import LOOK_AGAIN_SECONDS
from syncer.tenants import conditions
from syncer.tenants.connection import Link
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.conditions import Condition
from tenancy.resources import VIRTUAL_CLUSTERS


async def reconcile(_: Key, session: Session) -> Verdict:
    """Judge the store if there is a doubt, and say how things are."""
    link = session.link
    if link.problem:
        await _say(link)
        return Done()  # the tenant's return wakes this key
    try:
        goes_on = await _judge(link)
    except Exception:  # not a cancellation: what is said then would wait, or be an error instead
        await _say(link)  # whatever the tenant's API refuses: how things are is known
        raise
    await _say(link)
    if not goes_on:
        link.restart()
        return Done()
    return Again(LOOK_AGAIN_SECONDS) if link.holds_deletes else Done()


async def _judge(link: Link) -> bool:
    """Judge the store and mark it; tells whether the link's caches are still of that store."""
    brake, tenant = link.brake, link.tenant
    if link.store_in_doubt or brake.is_held:
        await _look(link)
    if brake.is_replaced:
        return False
    entry = link.home.virtual_clusters.get(tenant.namespace, tenant.name)
    confirmed = entry.annotations.get(wellknown.CONFIRM_DELETES, "") if entry is not None else ""
    if confirmed and entry is not None:
        taken = await brake.confirm(confirmed)
        await confirmations.take_off(
            link.home.client,
            VIRTUAL_CLUSTERS,
            entry,
            annotation=wellknown.CONFIRM_DELETES,
            word=confirmed,
        )
        if taken:
            return False
    if brake.is_count_due:
        await brake.count_up()
    return True


async def _look(link: Link) -> None:
    """Look at the store; the doubt stays until that worked."""
    link.store_in_doubt, is_judged = False, False
    try:
        await link.brake.look()
        is_judged = True
    finally:
        link.store_in_doubt |= not is_judged


async def _say(link: Link) -> None:
    tenant, brake = link.tenant, link.brake
    entry = link.home.virtual_clusters.get(tenant.namespace, tenant.name)
    if entry is None or entry.uid != tenant.uid or entry.deleting:
        return
    if link.problem:
        reason, message = conditions.UNREACHABLE, f"The tenant's API: {link.problem}"
    elif link.refusing:
        reason, message = conditions.REFUSING, f"In the tenant, {link.refusing}"
    else:
        reason = conditions.ENGAGED
        message = f"All of the tenant's objects are followed.{parked_writes.sentence(link)}"
    held = brake.message if brake.is_held else ""
    await conditions.say(
        link.home.client,
        entry,
        [
            conditions.synced(reason=reason, message=message, generation=entry.generation),
            conditions.deletes_held(message=held, generation=entry.generation),
            *_granted(link, entry.generation),
        ],
        store=conditions.held_store(brake.store) if brake.is_held else None,
    )


def _granted(link: Link, generation: int) -> list[Condition]:
    """Return what is said of the super clusters that a tenant is granted, if any are named."""
    declared = {entry.name for entry in link.home.super_clusters.list()} | {HOME}
    missing = sorted(set(link.seats.granted) - declared)
    if not link.seats.granted:
        return []
    return [conditions.targets_granted(missing=missing, generation=generation)]
