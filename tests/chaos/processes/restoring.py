"""The drill of a tenant's store that comes back from a backup, with its revision bumped or not.

Owns what the ledger has to say of a store that is another one: what the backup lacks no one has
deleted, until a person says that the backup stays or the old store returns.
"""

from __future__ import annotations

import asyncio
from time import time

from tenancy import wellknown
from tenancy.resources import NAMESPACES, PODS, VIRTUAL_CLUSTERS
from tests.chaos.processes import rest, snapshots
from tests.chaos.processes.sides import DrillTenant
from tests.chaos.processes.turn import DrillTurn

HELD_SECONDS = 3.0
"""How long nothing may be deleted, at least."""
_LONG = 120.0


async def restore(turn: DrillTurn) -> None:
    """A backup is restored, nothing is deleted, and then someone decides which store stays."""
    stage, chance = turn.stage, turn.chance
    tenant = chance.choice(stage.tenants)
    bump = turn.number % 2 == 0  # of two that follow each other one
    is_away, is_confirmed = (chance.random() < 0.5 for _ in range(2))
    turn.told = (
        f"{tenant.side}: {'bumped' if bump else 'not bumped'},"
        f" the syncer {'away' if is_away else 'there'},"
        f" {'confirmed' if is_confirmed else 'the old store came back'}"
    )
    file = stage.folder / f"backup-{turn.number}"
    async with turn.churning():
        await asyncio.sleep(chance.uniform(0.5, 1.5))
    await stage.calm()
    await snapshots.save(tenant.plane, file)
    async with turn.churning():
        await asyncio.sleep(chance.uniform(0.5, 2.0))
    turn.findings += await stage.calm()
    if not await turn.until(lambda: _is_counted(turn, tenant), "the epoch is counted", _LONG):
        return
    turn.findings += stage.verdict()  # by what the ledger says now
    before, asked, old = await _alive(tenant), dict(tenant.asked), tenant.plane.store
    tenant.is_judged = False
    if is_away:
        stage.slots[0].kill()
    store = f"restored-{turn.number}"
    await snapshots.restore(tenant.plane, file, store, bump=snapshots.BUMP if bump else 0)
    await tenant.plane.restart_on_store(store)
    back = await _alive(tenant)
    pods = {body["metadata"]["uid"] for body in (await tenant.client.list(PODS))["items"] or ()}
    # Pods that were deleted since the backup are there again, and what ran for them is gone. The
    # syncer marks them as lost, and deletes those that a controller replaces.
    gone_below = {uid: tenant.asked[uid] for uid in pods & tenant.asked.keys()}
    for uid in back:
        tenant.asked.pop(uid, None)
    if is_away:
        stage.slots[0].start()
    held = wellknown.DELETES_HELD
    if not await turn.until(lambda: stage.says(tenant, held, "True"), "deletes are held", _LONG):
        return
    async with turn.churning():
        await asyncio.sleep(HELD_SECONDS)
    turn.findings += stage.verdict()
    if is_confirmed:
        tenant.asked |= dict.fromkeys(before - back, time()) | gone_below
        await _confirm(turn, tenant)
    else:
        made = {*await _alive(tenant), *tenant.asked} - before  # the old store never had it
        tenant.asked = dict.fromkeys(made, time()) | asked
        await tenant.plane.restart_on_store(old)
    await turn.until(lambda: stage.says(tenant, held, "False"), "deletes are released", _LONG)
    await asyncio.sleep(1.0)  # the one that watches has seen the store that stays
    tenant.is_judged = True


async def _alive(tenant: DrillTenant) -> set[str]:
    found = await rest.contents(tenant.client)
    return {body["metadata"]["uid"] for bodies in found.values() for body in bodies}


async def _is_counted(turn: DrillTurn, tenant: DrillTenant) -> bool:
    """Return whether the store guard has counted everything that the restore will lose.

    It counts a while after a write. A restore within that while, to a moment before the write, is
    the known limit of its promise (`syncer.safety.store_guard`).
    """
    root = await turn.stage.below.get(NAMESPACES, tenant.tenant.root)
    found = (root["metadata"].get("annotations") or {}).get(wellknown.STORE_REVISION, "0")
    contents = await rest.contents(tenant.client)
    newest = max(
        int(body["metadata"]["resourceVersion"]) for bodies in contents.values() for body in bodies
    )
    # A status that goes up raises a revision of the tenant, and is nothing to count. A copy that
    # was written from a bumped store keeps a revision that the store which stays has not reached.
    owned = rest.list_owned(await rest.contents(turn.stage.below), tenant)
    revisions = [
        int(body["metadata"]["annotations"].get(wellknown.STORE_REVISION, "0"))
        for *_, body in owned
    ]
    return int(found) >= max((each for each in revisions if each <= newest), default=0)


async def _confirm(turn: DrillTurn, tenant: DrillTenant) -> None:
    """Say, as the CLI does, that the store is meant to stay."""
    system = await tenant.client.get(NAMESPACES, "kube-system")
    uid = system["metadata"]["uid"]
    await turn.stage.below.patch(
        VIRTUAL_CLUSTERS,
        tenant.tenant.name,
        {"metadata": {"annotations": {wellknown.CONFIRM_DELETES: uid}}},
        namespace=tenant.tenant.namespace,
    )
