"""vc-manager killed at its requests while it saves and restores a tenant's etcd, which is real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kubeio import Object
from tenancy import resources, wellknown
from tests.integration.vcmanager.test_kills import EVERY_POINT, choose_points
from tests.integration.vcmanager.test_snapshots import POD_A, POD_B, HostStore, store
from tests.support.vcmanager import kills
from tests.support.vcmanager.kills import KilledError, KillSwitch

__all__ = ["store"]

BOUNDED_POINTS = 3
"""Points of one sweep in a run that is not thorough, for each of before and after."""


@pytest.fixture
def switch(store: HostStore) -> Iterator[KillSwitch]:
    found = KillSwitch()
    with found.watching(store.stage.manager):
        yield found


def start_again(store: HostStore) -> None:
    store.stage = replace(store.stage, means=kills.forget(store.stage.means))


def has_ended(status: Object) -> bool:
    return status.get("phase") in ("Complete", "Failed")


async def save(store: HostStore, switch: KillSwitch, name: str) -> Object:
    """Create a snapshot. A new process goes on after a kill."""
    with switch.counting():
        try:
            return await store.save(name)
        except KilledError:
            start_again(store)
        return await store.settle(name, has_ended)


async def restore(store: HostStore, switch: KillSwitch, name: str, moment: str) -> Object:
    """Restore a snapshot. A new process goes on after a kill.

    A request with the moment of the last one is done already.
    """
    with switch.counting():
        try:
            return await store.restore(name, moment)
        except KilledError:
            start_again(store)
        body = await store.stage.fresh(store.cluster)
        if wellknown.RESTORE_SNAPSHOT in (body["metadata"].get("annotations") or {}):
            return await store.restore(name, moment)
        found: Object = body["status"]["restore"]
        return found


async def list_jobs(store: HostStore) -> list[str]:
    page = await store.stage.admin.list(resources.JOBS, namespace=store.stage.root(store.cluster))
    items = page.get("items") or ()
    return [each["metadata"]["name"] for each in items if not is_ending(each)]


def is_ending(body: dict[str, Any]) -> bool:
    return "deletionTimestamp" in body["metadata"]


async def sweep_saves(store: HostStore, switch: KillSwitch, most: int) -> None:
    """Save with a kill at each point. Each snapshot is whole, and no Job is left."""
    store.etcdctl("put", POD_A, "saved")
    switch.arm(0, is_done=False)
    whole = (await save(store, switch, "calm"))["status"]
    calls, points = switch.calls, 0
    for at in choose_points(calls, most=most):
        for is_done in (False, True):
            switch.arm(at, is_done=is_done)
            found = await save(store, switch, f"at-{at}-{is_done}".lower())
            assert found["status"]["phase"] == "Complete", (at, is_done, found["status"])
            assert set(found["status"]["manifest"]) == set(whole["manifest"]), (at, is_done)
            assert found["status"]["manifest"]["objects"] == whole["manifest"]["objects"]
            points += switch.has_struck
    print(f"snapshot: {calls} requests, vc-manager was killed {points} times")
    assert points > 0
    assert await list_jobs(store) == []


async def sweep_restores(store: HostStore, switch: KillSwitch, most: int) -> None:
    """Restore with a kill at each point. The data are those of the snapshot each time."""
    store.etcdctl("put", POD_A, "saved")
    switch.arm(0, is_done=False)
    await save(store, switch, "to-restore")
    calls = await restore_once(store, switch, "calm")
    points = 0
    for at in choose_points(calls, most=most):
        for is_done in (False, True):
            switch.arm(at, is_done=is_done)
            await restore_once(store, switch, f"{at}-{is_done}")
            points += switch.has_struck
            switch.arm(0, is_done=False)
            await store.stage.bring_up(store.cluster)
            assert await list_jobs(store) == [], (at, is_done)
    print(f"restore: {calls} requests, vc-manager was killed {points} times")
    assert points > 0


async def restore_once(store: HostStore, switch: KillSwitch, moment: str) -> int:
    """Change the data, restore them, and start etcd. Return the number of requests."""
    store.etcdctl("del", POD_A)
    store.etcdctl("put", POD_B, "later")
    result = await restore(store, switch, "to-restore", moment)
    calls = switch.calls
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), moment
    store.run_etcd()
    await store.wait_for_etcd()
    assert "saved" in store.etcdctl("get", POD_A), moment
    assert not store.etcdctl("get", POD_B), moment
    return calls


@pytest.mark.timeout(1200)
async def test_a_kill_in_a_snapshot_leaves_a_whole_one(store: HostStore, switch: KillSwitch):
    """REL-165."""
    await sweep_saves(store, switch, BOUNDED_POINTS)


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_a_kill_at_every_request_of_a_snapshot_leaves_a_whole_one(
    store: HostStore, switch: KillSwitch
):
    """REL-165."""
    await sweep_saves(store, switch, EVERY_POINT)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
async def test_a_kill_in_a_restore_leaves_the_data_of_the_snapshot(
    store: HostStore, switch: KillSwitch
):
    """REL-165."""
    await sweep_restores(store, switch, 8)


@pytest.mark.slow
@pytest.mark.timeout(14400)
async def test_a_kill_at_every_request_of_a_restore_leaves_the_data_of_the_snapshot(
    store: HostStore, switch: KillSwitch
):
    """REL-165."""
    await sweep_restores(store, switch, EVERY_POINT)
