"""The drill of a tenant's store that comes back from a backup, by hand or by vc-manager.

By hand, the revision is bumped or not. vc-manager has the syncer disconnect first, runs its own
Jobs, and raises the epoch of the store. The old store is then gone.

Owns what the ledger has to say of a store that is another one: what the backup lacks no one has
deleted, until a person says that the backup stays or the old store returns.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from time import time

from tenancy import wellknown
from tenancy.resources import NAMESPACES, PODS, VIRTUAL_CLUSTERS
from tenancy.snapshots import view
from tenancy.snapshots.view import Snapshot
from tenancy.specs import VirtualCluster, parse_virtual_cluster
from tests.chaos.processes import rest, snapshots
from tests.chaos.processes.sides import DrillTenant
from tests.chaos.processes.turn import DrillTurn
from tests.support.vcmanager.factories import fake_means
from vcmanager.reconcilers.snapshots import restore

HELD_SECONDS = 3.0
"""How long nothing may be deleted, at least."""
_LONG = 120.0
BUMPED, NOT_BUMPED, BY_MANAGER = "bumped", "not bumped", "by vc-manager"
KINDS = (BY_MANAGER, BUMPED, NOT_BUMPED)
"""How the store comes back."""


async def restore_backup(turn: DrillTurn) -> None:
    """A backup is restored, nothing is deleted, and then someone decides which store stays."""
    stage, chance = turn.stage, turn.chance
    tenant = chance.choice(stage.tenants)
    kind = KINDS[turn.number % len(KINDS)]  # of three that follow each other one each
    is_away, is_confirmed = (chance.random() < 0.5 for _ in range(2))
    is_confirmed = is_confirmed or kind == BY_MANAGER
    turn.told = (
        f"{tenant.side}: {kind}, the syncer {'away' if is_away else 'there'},"
        f" {'confirmed' if is_confirmed else 'the old store came back'}"
    )
    backup = Backup(turn, tenant, kind)
    async with turn.churning():
        await asyncio.sleep(chance.uniform(0.5, 1.5))
    await stage.calm()
    await backup.save()
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
    if not await backup.restore(is_away=is_away):
        return
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


class Backup:
    """A backup of a tenant's store, and its restore, in one of the ways of KINDS."""

    def __init__(self, turn: DrillTurn, tenant: DrillTenant, kind: str) -> None:
        self._turn, self._tenant, self._kind = turn, tenant, kind
        self._file = turn.stage.folder / f"backup-{turn.number}"
        self._snapshot: Snapshot | None = None
        if kind == BY_MANAGER:
            self._file.mkdir()

    async def save(self) -> None:
        """Save the store, which runs."""
        plane = self._tenant.plane
        if self._kind == BY_MANAGER:
            self._snapshot = await snapshots.save_by_job(plane, self._tenant.tenant, self._file)
        else:
            await snapshots.save(plane, self._file)

    async def restore(self, *, is_away: bool) -> bool:
        """Start the tenant on the backup. Return False if that took too long."""
        plane = self._tenant.plane
        if self._snapshot is not None:
            return await self._restore_by_manager(self._snapshot, is_away=is_away)
        store = f"restored-{self._turn.number}"
        bump = snapshots.BUMP if self._kind == BUMPED else 0
        await snapshots.restore(plane, self._file, store, bump=bump)
        await plane.restart_on_store(store)
        return True

    async def _restore_by_manager(self, snapshot: Snapshot, *, is_away: bool) -> bool:
        """Restore in the order of vc-manager, with its Jobs and its own write."""
        turn, tenant, plane = self._turn, self._tenant.tenant, self._tenant.plane
        request = view.format_restore_request(snapshot.name, datetime.now(UTC))
        await self._annotate(request)
        await self._report(request, "Stopping")  # the syncer disconnects because of it

        async def is_disconnected() -> bool:
            asked = restore.get_active_request(cluster := await self._fetch())
            return asked is not None and restore.is_disconnected(cluster, asked)

        if not is_away and not await turn.until(is_disconnected, "the syncer disconnects", _LONG):
            return False
        await plane.stop()
        store = await snapshots.restore_by_job(plane, tenant, snapshot, self._file)
        means = fake_means(turn.stage.below)
        await restore.raise_epoch(means, await self._fetch(), is_fork=False)
        await plane.restart_on_store(store)
        await self._report(request, "Complete")
        await self._annotate(None)
        return True

    async def _fetch(self) -> VirtualCluster:
        tenant = self._tenant.tenant
        found = await self._turn.stage.below.get(
            VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace
        )
        return parse_virtual_cluster(found)

    async def _report(self, request: str, phase: str) -> None:
        tenant = self._tenant.tenant
        found = {"request": request, "phase": phase, "reason": phase, "message": "A drill."}
        await self._turn.stage.below.patch(
            VIRTUAL_CLUSTERS,
            tenant.name,
            {"status": {"restore": found}},
            namespace=tenant.namespace,
            subresource="status",
        )

    async def _annotate(self, request: str | None) -> None:
        tenant = self._tenant.tenant
        body = {"metadata": {"annotations": {wellknown.RESTORE_SNAPSHOT: request}}}
        await self._turn.stage.below.patch(
            VIRTUAL_CLUSTERS, tenant.name, body, namespace=tenant.namespace
        )


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
