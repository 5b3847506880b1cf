"""Additions of a tenant to its nodes stay and place its pods. The syncer owns all other fields."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio import Object
from syncer.controllers.pods.node_selection import FAILED_SCHEDULING
from syncer.handlers.resync import Resync
from tenancy import wellknown
from tenancy.resources import NODES, PODS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

RACK = "cloud.example/rack"
"""A label key that tenants are not shown of super nodes."""
TAINT = {"key": "own", "value": "1", "effect": "NoSchedule"}
OURS = {"key": "ours", "value": "1", "effect": "NoSchedule"}


async def shown_node(world: SyncerWorld) -> tuple[str, str]:
    """Have the tenant see a node, which a pod runs on."""
    space, node = await world.namespace(), await world.super_node()
    await world.tenant_client.create(PODS, pod("first"), namespace=space)
    await world.start_pod(space, "first", node)
    return space, node


@contextlib.asynccontextmanager
async def lent(world: SyncerWorld, node: str) -> AsyncIterator[None]:
    """Take a node away in the end, and with it what its tenant has added to it."""
    try:
        yield
    finally:
        await world.super_client.delete(NODES, node)
        await gone(lambda: world.tenant_client.get(NODES, node))


async def add(world: SyncerWorld, node: str, **body: Any) -> None:
    """Have the tenant's administrator change a node."""
    await world.tenant_client.patch(NODES, node, body)


def taints(body: Object) -> dict[str, str]:
    return {item["key"]: item.get("value", "") for item in body["spec"].get("taints", [])}


def condition(body: Object) -> tuple[str, str]:
    found = [c for c in body["status"].get("conditions", []) if c["type"] == "PodScheduled"]
    return (found[0]["status"], found[0].get("reason", "")) if found else ("", "")


def names(twin: Object) -> set[tuple[str, str]]:
    """Return the nodes that a twin names, each with how."""
    affinity = (twin["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return {
        (field["operator"], name)
        for term in required.get("nodeSelectorTerms", [])
        for field in term.get("matchFields", [])
        for name in field["values"]
    }


def is_as_added(body: Object) -> bool:
    metadata = body["metadata"]
    return (
        metadata["labels"].get("mine") == "1"
        and metadata["annotations"].get("mine") == "1"
        and taints(body).get("own") == "1"
        and body["spec"].get("unschedulable") is True
    )


async def test_what_a_tenant_adds_to_its_node_stays(world: SyncerWorld):
    """V-03: through changes of ours, a resync, a restart, and the end of its pods."""
    async with world.syncer():
        space, node = await shown_node(world)
        metadata = {"labels": {"mine": "1"}, "annotations": {"mine": "1"}}
        await add(world, node, metadata=metadata, spec={"unschedulable": True, "taints": [TAINT]})
        ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
        change = {"metadata": {"labels": {"tier": "gold"}}, "spec": {"taints": [OURS]}}
        await world.super_client.patch(NODES, node, change)
        await world.super_client.patch(
            NODES, node, {"status": {"conditions": [ready]}}, subresource="status"
        )
        shown = await eventually(
            lambda: world.tenant_client.get(NODES, node),
            until=lambda body: "ours" in taints(body) and "tier" in body["metadata"]["labels"],
        )
        assert is_as_added(shown)
        await world.idle()
        await Resync(world.running[-1].tenants.sessions).resync_session(world.session)
        await world.idle()
        assert is_as_added(await world.tenant_client.get(NODES, node))
        await world.tenant_client.delete(PODS, "first", namespace=space)
        await world.remove_pod(space, "first")
        await gone(lambda: world.tenant_client.get(PODS, "first", namespace=space))
    async with world.syncer(), lent(world, node):
        gone_below = {"metadata": {"labels": {"tier": None}}, "spec": {"taints": None}}
        await world.super_client.patch(NODES, node, gone_below)
        shown = await eventually(
            lambda: world.tenant_client.get(NODES, node),
            until=lambda body: (
                "ours" not in taints(body) and "tier" not in body["metadata"]["labels"]
            ),
        )
        assert is_as_added(shown)


async def test_super_cluster_fields_are_restored(synced: SyncerWorld):
    _, node = await shown_node(synced)
    async with lent(synced, node):
        await synced.super_client.patch(NODES, node, {"spec": {"taints": [OURS]}})
        await eventually(
            lambda: synced.tenant_client.get(NODES, node), until=lambda body: "ours" in taints(body)
        )
        changed: dict[str, Any] = {"labels": {"disk": "slow", "kubernetes.io/os": None}}
        await add(synced, node, metadata=changed, spec={"taints": [{**OURS, "value": "2"}, TAINT]})
        shown = await eventually(
            lambda: synced.tenant_client.get(NODES, node),
            until=lambda body: (
                taints(body) == {"ours": "1", "own": "1"}
                and body["metadata"]["labels"].get("disk") == "fast"
            ),
        )
        assert shown["metadata"]["labels"]["kubernetes.io/os"] == "linux"
        await synced.idle()
        await add(synced, node, spec={"taints": [TAINT]})
        await eventually(
            lambda: synced.tenant_client.get(NODES, node), until=lambda body: "ours" in taints(body)
        )


async def test_a_selector_on_a_key_that_only_the_tenants_nodes_carry(synced: SyncerWorld):
    """It names no node until one has the label, then that one, and the next one that has it."""
    space, node = await shown_node(synced)
    async with lent(synced, node):
        await synced.tenant_client.create(
            PODS, pod("web", nodeSelector={RACK: "7"}), namespace=space
        )
        held = await eventually(
            lambda: synced.tenant_client.get(PODS, "web", namespace=space),
            until=lambda body: condition(body) == ("False", "Unschedulable"),
        )
        assert f"{RACK}=7" in held["status"]["conditions"][0]["message"]
        events = await eventually(lambda: synced.events(space))
        (told,) = [event for event in events if event["reason"] == FAILED_SCHEDULING]
        assert (told["type"], told["involvedObject"]["name"]) == ("Warning", "web")
        assert f"{RACK}=7" in told["message"]
        assert not await synced.has_twin(PODS, space, "web")
        await add(synced, node, metadata={"labels": {RACK: "7"}})
        twin = await eventually(lambda: synced.twin(PODS, space, "web"))
        assert names(twin) == {("In", node)}
        assert "nodeSelector" not in twin["spec"]

        await synced.tenant_client.create(PODS, pod("other"), namespace=space)
        other = await synced.super_node()
        await synced.start_pod(space, "other", other)
        async with lent(synced, other):
            await add(synced, other, metadata={"labels": {RACK: "7"}})
            await add(synced, node, metadata={"labels": {RACK: None}})
            twin = await eventually(
                lambda: synced.twin(PODS, space, "web"),
                until=lambda body: names(body) == {("In", other)},
            )
            await synced.start_pod(space, "web", other)
            await add(synced, other, metadata={"labels": {RACK: None}})
            await synced.idle()
            same = await synced.twin(PODS, space, "web")
            assert same["metadata"]["uid"] == twin["metadata"]["uid"], "it runs"


@pytest.mark.parametrize(
    "closing", [{"unschedulable": True}, {"taints": [TAINT]}], ids=["cordon", "taint"]
)
async def test_a_node_that_its_tenant_closes_gets_no_new_pods(synced: SyncerWorld, closing: Object):
    space, node = await shown_node(synced)
    async with lent(synced, node):
        await synced.tenant_client.create(PODS, pod("before"), namespace=space)
        await eventually(lambda: synced.twin(PODS, space, "before"))
        await add(synced, node, spec=closing)
        await eventually(
            lambda: synced.twin(PODS, space, "before"),
            until=lambda body: names(body) == {("NotIn", node)},
        )
        keys = ["own", "node.kubernetes.io/unschedulable"]
        bearing = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
        await synced.tenant_client.create(
            PODS, pod("bearing", tolerations=bearing), namespace=space
        )
        twin = await eventually(lambda: synced.twin(PODS, space, "bearing"))
        assert names(twin) == set()
        first = await synced.twin(PODS, space, "first")
        assert "deletionTimestamp" not in first["metadata"]
        await add(synced, node, spec=dict.fromkeys(closing))
        await eventually(
            lambda: synced.twin(PODS, space, "before"), until=lambda body: names(body) == set()
        )
        assert (
            wellknown.NODE_CHOICE
            not in (await synced.twin(PODS, space, "before"))["metadata"]["annotations"]
        )


async def test_a_pod_that_names_a_node_without_room_has_failed(synced: SyncerWorld):
    """The test says what a scheduler says. A controller would make the pod again."""
    space, node = await shown_node(synced)
    async with lent(synced, node):
        await synced.tenant_client.create(PODS, pod("web", nodeName=node), namespace=space)
        twin = await eventually(lambda: synced.twin(PODS, space, "web"))
        assert names(twin) == {("In", node)}
        message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod"
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await synced.report(space, "web", conditions=[{**said, "message": f"{message} ports."}])
        await gone(lambda: synced.twin(PODS, space, "web"))
        failed = await eventually(
            lambda: synced.tenant_client.get(PODS, "web", namespace=space),
            until=lambda body: body["status"]["phase"] == "Failed",
        )
        assert failed["status"]["reason"] == "NodePorts"
        await synced.idle()
        assert not await synced.has_twin(PODS, space, "web")
        await synced.tenant_client.delete(PODS, "web", namespace=space)
        await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))
