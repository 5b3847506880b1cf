"""Tenants that are suspended or over their limits: disconnected, told, and back by themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio.cache.cache_budget import CacheOverflow
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from kubeio.controller.bucket_rate_limiter import BucketRateLimiter
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from syncer.lifecycle import tenant_manager
from syncer.lifecycle.tenant_manager import TenantManager
from syncer.lifecycle.tenant_plan import TenantPlan
from syncer.model.keys import Key, build_group
from syncer.safety.cache_limits import TenantLimits
from syncer.tenants import connection as connections
from tenancy import wellknown
from tests.support.syncer.sessions import BODY, CLUSTER, SessionWorld, put

PLAN = TenantPlan(cluster=CLUSTER, kubeconfig=b"", service_range="10.96.8.0/22")
REASON = "the syncer uses 9 of 10 bytes"


@contextlib.asynccontextmanager
async def managing(
    world: SessionWorld, limits: TenantLimits | None = None, **replaced: Any
) -> AsyncIterator[TenantManager]:
    """Run the manager of the one tenant, with parts of it replaced."""
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    manager = TenantManager(world.super_cluster, queue, limits)
    for name, function in replaced.items():
        setattr(manager, name, function)
    task = asyncio.ensure_future(manager.run())
    await asyncio.sleep(0.2)
    try:
        yield manager
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def declare(world: SessionWorld, *, suspend: bool, revision: int = 1, **metadata: Any) -> None:
    spec = {**BODY["spec"], "suspend": suspend}
    metadata = {**BODY["metadata"], "resourceVersion": str(revision), **metadata}
    put(world.super_cluster.virtual_clusters, {**BODY, "spec": spec, "metadata": metadata})


def conditions_of(world: SessionWorld) -> list[dict[str, Any]]:
    return [body["status"]["conditions"][0] for body in world.below.bodies if body]


async def test_a_suspended_tenant_is_disconnected_at_once_and_connected_again(monkeypatch):
    world = SessionWorld()
    monkeypatch.setattr(loading, "load_tenant_kubeconfig", lambda *_, **__: world.link.client)
    monkeypatch.setattr(connections, "TenantClient", lambda *_, **__: world.above)
    running: list[str] = []
    tokens: list[BucketRateLimiter | None] = []

    async def run(link: connections.TenantConnection) -> None:
        running.append("start")
        tokens.append(link.write_tokens)
        try:
            await asyncio.Event().wait()
        finally:
            running.append("end")

    monkeypatch.setattr(connections.TenantConnection, "run", run)
    declare(world, suspend=False)

    def plan(entry: Any) -> TenantPlan | None:
        return None if (entry.decode()["spec"] or {}).get("suspend") else PLAN

    async with managing(world, _build_plan=plan) as manager:
        assert running == ["start"]
        assert manager._metric_counts.count_declared() == 1
        declare(world, suspend=True, revision=2)
        await asyncio.sleep(0.1)
        assert running == ["start", "end"]
        (told,) = conditions_of(world)
        assert (told["status"], told["reason"]) == ("False", "Suspended")
        assert "Set spec.suspend to false" in told["message"]
        assert manager._metric_counts.count_suspended() == 1
        assert manager._metric_counts.count_declared() == 0
        declare(world, suspend=False, revision=3)
        await asyncio.sleep(0.1)
        assert running == ["start", "end", "start"]
        assert manager._metric_counts.count_suspended() == 0
        assert tokens[0] is not None
        assert tokens[0] is tokens[1], "a new connection does not get another burst"


def test_a_suspended_tenant_has_no_plan():
    world = SessionWorld()
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    manager = TenantManager(world.super_cluster, queue)
    secret = {
        "kind": "Secret",
        "metadata": {
            "namespace": CLUSTER.tenant.root,
            "name": tenant_manager.KUBECONFIG_NAME,
            "uid": "s",
            "resourceVersion": "1",
        },
        "data": {tenant_manager.KUBECONFIG_NAME: "Y29uZmln"},
    }
    put(world.super_cluster.credentials, secret)
    for suspend, revision in ((False, 1), (True, 2)):
        declare(world, suspend=suspend, revision=revision)
        (entry,) = world.super_cluster.virtual_clusters.list()
        assert (manager._build_plan(entry) is None) is suspend


async def test_a_suspended_tenant_that_is_deleted_is_reported_as_disengaged():
    world = SessionWorld()
    declare(world, suspend=True, deletionTimestamp="2026-01-01T00:00:00Z")
    async with managing(world) as manager:
        (told,) = conditions_of(world)
        assert (told["status"], told["reason"]) == ("False", "Disengaged")
        assert manager._metric_counts.count_suspended() == 0


async def test_a_suspended_tenant_that_is_restored_reports_the_request():
    """vc-manager waits for this condition before it replaces the etcd."""
    world = SessionWorld()
    request = "s@2026-11-28T08:00:00Z"
    body = {
        **BODY,
        "spec": {**BODY["spec"], "suspend": True},
        "metadata": {
            **BODY["metadata"],
            "resourceVersion": "1",
            "annotations": {wellknown.RESTORE_SNAPSHOT: request},
        },
        "status": {"restore": {"request": request, "phase": "Stopping"}},
    }
    put(world.super_cluster.virtual_clusters, body)
    async with managing(world) as manager:
        (told,) = conditions_of(world)
        assert (told["status"], told["reason"]) == ("False", wellknown.RESTORING)
        assert request in told["message"]
        assert world.below.bodies[-1]["status"]["disconnectedForRestore"] == request
        assert manager._metric_counts.count_suspended() == 1


async def test_a_tenant_over_its_limits_is_reported_stays_away_and_returns(monkeypatch):
    world = SessionWorld()
    monkeypatch.setattr(loading, "load_tenant_kubeconfig", lambda *_, **__: world.link.client)
    monkeypatch.setattr(connections, "TenantClient", lambda *_, **__: world.above)
    started: list[connections.TenantConnection] = []
    reported: list[str] = []

    async def report(_: Endpoint, overflow: CacheOverflow) -> None:
        reported.append(overflow.kind)

    monkeypatch.setattr(tenant_manager, "report_overflow", report)

    async def run(link: connections.TenantConnection) -> None:
        started.append(link)
        if len(started) == 1:
            put(link.stores["NetworkPolicy"], {"metadata": {"name": "p", "namespace": "big"}})
            accounts = {each.kind: each for each in link.cache_budget._accounts}
            accounts["NetworkPolicy"].charge()
            link.cache_budget.exceed(REASON)
        await asyncio.Event().wait()

    monkeypatch.setattr(connections.TenantConnection, "run", run)
    declare(world, suspend=False)
    limits = TenantLimits(away_base_seconds=1.0, away_max_seconds=2.0)
    async with managing(world, limits, _build_plan=lambda _: PLAN) as manager:
        assert len(started) == 1
        (told,) = conditions_of(world)
        assert (told["status"], told["reason"]) == ("False", "TooLarge")
        assert f"NetworkPolicy in namespace big: {REASON}. This kind uses" in told["message"]
        assert reported == ["NetworkPolicy"]
        assert manager._metric_counts.count_too_large() == 1
        assert len(started[0].stores["NetworkPolicy"]) == 0, "its memory is released"
        assert manager.connections == {}
        world.declared([told])  # our own condition does not end the pause
        await asyncio.sleep(0.1)
        assert len(started) == 1
        await asyncio.sleep(1.0)
        assert len(started) == 2
        assert manager._metric_counts.count_too_large() == 0


@pytest.mark.parametrize(("root", "woken"), [(CLUSTER.tenant.root, True), ("other-root", False)])
async def test_a_credential_enqueues_its_own_tenant_and_decodes_no_other(root, woken, monkeypatch):
    world = SessionWorld()
    declare(world, suspend=False)
    metadata = {"name": "other", "namespace": "default", "uid": "u2", "resourceVersion": "1"}
    put(world.super_cluster.virtual_clusters, {**BODY, "metadata": metadata})
    turns: list[str] = []

    async def turn(uid: str, _: object) -> float:
        turns.append(uid)
        return float("inf")

    async with managing(world) as manager:
        manager._supervisor._step = turn
        monkeypatch.setattr(tenant_manager, "_parse_entry", None)
        secret = {"name": "syncer-kubeconfig", "namespace": root, "uid": "s"}
        put(world.super_cluster.credentials, {"kind": "Secret", "metadata": secret})
        await asyncio.sleep(0.05)
        assert turns == ([CLUSTER.tenant.uid] if woken else [])


# Tenants that sleep.


def put_to_sleep(world: SessionWorld, workloads: str, revision: int = 1, **more: Any) -> None:
    spec = {**BODY["spec"], "sleep": {"workloads": workloads}}
    metadata = {**BODY["metadata"], "resourceVersion": str(revision)}
    put(world.super_cluster.virtual_clusters, {**BODY, "spec": spec, "metadata": metadata, **more})


@pytest.mark.parametrize(("workloads", "deleted"), [("Keep", False), ("ScaleToZero", True)])
async def test_an_asleep_tenant_is_not_connected_and_keeps_its_copies(workloads, deleted):
    """REL-133."""
    world = SessionWorld()
    pod = {"name": "web", "namespace": "space", "uid": "p"}
    pod["labels"] = {wellknown.VC_UID: CLUSTER.tenant.uid}  # type: ignore[assignment]
    world.below.has("Namespace", "space", {})
    body = {"kind": "Pod", "metadata": pod, "spec": {}, "status": {}}
    put(world.super_cluster.stores["Pod"], body)
    put_to_sleep(world, workloads)
    async with managing(world) as manager:
        (told,) = conditions_of(world)
        assert (told["status"], told["reason"]) == ("False", "Asleep")
        assert manager._metric_counts.count_suspended() == 1
        assert manager._metric_counts.count_declared() == 0
        assert manager.connections == {}
    deletes = [asked for asked in world.below.asked if asked[0] == "delete"]
    assert deletes == ([("delete", "Pod", "web")] if deleted else [])


def test_an_asleep_tenant_has_no_plan():
    world = SessionWorld()
    put_to_sleep(world, "Keep")
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    (entry,) = world.super_cluster.virtual_clusters.list()
    assert TenantManager(world.super_cluster, queue)._build_plan(entry) is None


async def test_a_restore_of_an_asleep_tenant_has_its_own_reason():
    """Otherwise vc-manager would wait for it for ever."""
    world = SessionWorld()
    request = "first@2026-03-01T12:00:00Z"
    metadata = {**BODY["metadata"], "annotations": {wellknown.RESTORE_SNAPSHOT: request}}
    status = {**BODY["status"], "restore": {"request": request, "phase": "Stopping"}}
    put_to_sleep(world, "ScaleToZero", metadata=metadata, status=status)
    async with managing(world):
        (told,) = conditions_of(world)
    assert (told["reason"], request in told["message"]) == ("Restoring", True)
