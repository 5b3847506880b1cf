"""Reconciler of a tenant's store and status: one key per connection.

Owns the times of store checks, confirmations and epoch increases, and the conditions on the
VirtualCluster. Must not judge: `syncer.safety.store_guard` does. Hazard: a confirmation must be
removed once it was read. Otherwise it would release the next loss, too.
"""

from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers import parked_writes
from syncer.model.keys import HOME, Key
from syncer.rules.network.attachments import primary_networks
from syncer.safety import confirmations
from syncer.safety.store_guard import HELD_RETRY_SECONDS
from syncer.tenants import conditions
from syncer.tenants.connection import TenantConnection
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.conditions import Condition
from tenancy.resources import VIRTUAL_CLUSTERS


async def reconcile_tenant_status(_: Key, session: Session) -> Result:
    """Judge the store if necessary, and write the conditions."""
    link = session.connection
    if link.problem:
        await _write_status(session)
        return Done()  # the tenant's return wakes this key
    try:
        goes_on = await _check_store(link)
    except Exception:  # not a cancellation, which must not wait for a write
        await _write_status(session)  # also if the tenant's API refuses
        raise
    await _write_status(session)
    if not goes_on:
        link.restart()
        return Done()
    return RequeueAfter(HELD_RETRY_SECONDS) if link.holds_deletes else Done()


async def _check_store(link: TenantConnection) -> bool:
    """Judge and mark the store. Returns False if the caches belong to a different store."""
    guard, tenant = link.store_guard, link.tenant
    if link.must_check_store or guard.is_held:
        await _refresh_store(link)
    if guard.is_replaced:
        return False
    entry = link.home_cluster.virtual_clusters.get(tenant.namespace, tenant.name)
    confirmed = entry.annotations.get(wellknown.CONFIRM_DELETES, "") if entry is not None else ""
    if confirmed and entry is not None:
        taken = await guard.accept_store(confirmed)
        await confirmations.remove_confirmation(
            link.home_cluster.client,
            VIRTUAL_CLUSTERS,
            entry,
            annotation=wellknown.CONFIRM_DELETES,
            confirmation=confirmed,
        )
        if taken:
            return False
    if guard.is_count_due:
        await guard.advance_epoch()
    return True


async def _refresh_store(link: TenantConnection) -> None:
    """Check the store. The doubt stays until a check succeeded."""
    with link.check_store():
        await link.store_guard.refresh()


async def _write_status(session: Session) -> None:
    link = session.connection
    tenant, guard = link.tenant, link.store_guard
    entry = link.home_cluster.virtual_clusters.get(tenant.namespace, tenant.name)
    if entry is None or entry.uid != tenant.uid or entry.deleting:
        return
    if link.problem:
        reason, message = conditions.UNREACHABLE, f"The tenant's API: {link.problem}"
    elif link.refused_writes_problem:
        reason, message = conditions.REFUSING, f"In the tenant, {link.refused_writes_problem}"
    else:
        reason = conditions.ENGAGED
        message = (
            f"All of the tenant's objects are synced.{parked_writes.format_parked_message(link)}"
        )
    held = guard.message
    await conditions.write_conditions(
        link.home_cluster.client,
        entry,
        [
            conditions.build_synced(reason=reason, message=message, generation=entry.generation),
            conditions.build_deletes_held(message=held, generation=entry.generation),
            *_build_grant_conditions(link, entry.generation),
            *_build_network_conditions(session, entry.generation),
        ],
        store=conditions.held_store(guard.store) if guard.is_held else None,
    )


def _build_network_conditions(session: Session, generation: int) -> list[Condition]:
    """Return the condition about the tenant's own network, if it has one."""
    if session.view.spec.network is None:
        return []
    problem = primary_networks.find_problem(session.view)
    return [conditions.build_network_ready(problem=problem, generation=generation)]


def _build_grant_conditions(link: TenantConnection, generation: int) -> list[Condition]:
    """Return the condition about the tenant's granted targets, if any are named."""
    declared = {entry.name for entry in link.home_cluster.super_clusters.list()} | {HOME}
    missing = sorted(set(link.grants.granted) - declared)
    if not link.grants.granted:
        return []
    return [conditions.build_targets_granted(missing=missing, generation=generation)]
