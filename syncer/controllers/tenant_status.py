"""Reconciler of a tenant's store and status: one key per connection.

Owns the times of store checks, confirmations and epoch increases, and the conditions on the
VirtualCluster. Must not judge: `syncer.safety.store_guard` does. Hazard: a confirmation must be
removed once it was read. Otherwise it would release the next loss, too.
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
    """Judge the store if necessary, and write the conditions."""
    link = session.link
    if link.problem:
        await _say(link)
        return Done()  # the tenant's return wakes this key
    try:
        goes_on = await _judge(link)
    except Exception:  # not a cancellation, which must not wait for a write
        await _say(link)  # also if the tenant's API refuses
        raise
    await _say(link)
    if not goes_on:
        link.restart()
        return Done()
    return Again(LOOK_AGAIN_SECONDS) if link.holds_deletes else Done()


async def _judge(link: Link) -> bool:
    """Judge and mark the store. Returns False if the caches belong to a different store."""
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
    """Check the store. The doubt stays until a check succeeded."""
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
    """Return the condition about the tenant's granted targets, if any are named."""
    declared = {entry.name for entry in link.home.super_clusters.list()} | {HOME}
    missing = sorted(set(link.seats.granted) - declared)
    if not link.seats.granted:
        return []
    return [conditions.targets_granted(missing=missing, generation=generation)]
