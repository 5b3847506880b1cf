"""Karpenter scales a super cluster for a tenant: from zero, at the pace of budgets, to zero.

Karpenter, kwok and the scheduler are the real programs. The nodes have no machines, and kwok
reports their pods as Running.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeio import Object
from kubeio.api.client import Client
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)
from tests.integration.syncer.control_planes import begin_super, begin_tenant, declare, tenant_plane
from tests.integration.syncer.world import SyncerWorld, names_of_others
from tests.support.controlplane import ACCOUNTS, LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tools.testbed import kwok
from tools.testbed.artifacts import binaries

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

NODE_CLASSES = Resource(
    "karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", namespaced=False
)
NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
POOL = {"pool": "elastic"}
REPLICAS = 6
CPUS = 4
PATIENCE = 120.0
"""Karpenter looks for nodes to remove each 10 s, and looks again 15 s later."""


@pytest.fixture(autouse=True)
def _linger(monkeypatch: pytest.MonkeyPatch, _short_linger: None) -> None:
    """A pod that is being replaced is missing for longer than the other tests wait."""
    monkeypatch.setattr("syncer.tenants.memory.grace_timers.GRACE_PERIOD_SECONDS", 5.0)


@pytest.fixture(scope="module")
def elastic_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A super cluster whose controllers hold pods to their budgets. It has no node."""
    plane = LocalControlPlane(
        tmp_path_factory.mktemp("elastic"),
        name="super",
        audit=True,
        controllers=(
            *("namespace-controller", ACCOUNTS, "root-ca-certificate-publisher-controller"),
            *("disruption-controller", "resourcequota-controller", "garbage-collector-controller"),
            "node-lifecycle-controller",  # takes the taint not-ready from each new node
        ),
    )
    with serving(plane, begin=begin_super):
        yield plane


@contextlib.asynccontextmanager
async def scaled(plane: LocalControlPlane) -> AsyncIterator[None]:
    """Run scheduler, kwok and Karpenter beside a control plane."""
    folder = plane.folder
    kubeconfig = folder / "programs.kubeconfig"
    kubeconfig.write_bytes(plane.kubeconfig())
    kwok.write_stages(folder / "kwok.yaml")
    async with Client(plane.endpoint) as client:
        for definition in kwok.list_karpenter_definitions():
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        node_class, pool = kwok.node_pool("elastic", POOL, cpus=CPUS)
        await eventually(lambda: client.create(NODE_CLASSES, node_class))
        await eventually(lambda: client.create(NODE_POOLS, pool))
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "SYSTEM_NAMESPACE": "kube-system",
        "KWOK_WORKDIR": str(folder),
    }
    ranges = {"cidr": "10.244.0.0/16", "node-ip": "192.0.2.9"}
    commands = (
        [
            str(binaries.path("kube-scheduler")),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
        ],
        kwok.build_command(kubeconfig, folder / "kwok.yaml", **ranges),
        kwok.build_karpenter_command(free_port(), free_port()),
    )
    programs = [
        ProgramProcess(command, folder / f"{Path(command[0]).name}.log", environment)
        for command in commands
    ]
    try:
        yield
    except AssertionError as problem:
        for program in programs:
            problem.add_note(program.tail())
        raise
    finally:
        for program in programs:
            await program.stop()


@pytest.fixture
async def elastic(elastic_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    """A tenant with controllers, in a super cluster that Karpenter scales."""
    controllers = ("deployment-controller", "replicaset-controller", "disruption-controller")
    plane = tenant_plane(
        tmp_path, "elastic", controllers=(*controllers, "garbage-collector-controller")
    )
    await begin_tenant(plane)
    try:
        async with (
            scaled(elastic_plane),
            Client(elastic_plane.endpoint) as super_client,
            Client(plane.endpoint) as tenant_client,
        ):
            tenant = await declare(super_client, plane)
            world = SyncerWorld(
                super_plane=elastic_plane,
                tenant_plane=plane,
                tenant=tenant,
                super_client=super_client,
                tenant_client=tenant_client,
                others=await names_of_others(super_client, tenant_client, tenant),
            )
            async with world.syncer():
                yield world
    finally:
        await plane.stop()


def deployment(name: str, replicas: int) -> Object:
    """Return a Deployment for the pool, whose pods would keep their nodes if they might."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "1500m", "memory": "64Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    "labels": {"app": name},
                    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                },
                "spec": {
                    "nodeSelector": POOL,
                    "containers": [container],
                    "terminationGracePeriodSeconds": 1,
                },
            },
        },
    }


async def items(client: Client, resource: Resource, *, namespace: str = "") -> list[Any]:
    found: list[Any] = (await client.list(resource, namespace=namespace))["items"]
    return found


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


async def test_karpenter_scales_for_a_tenant_from_zero_and_back(elastic: SyncerWorld):
    """A4-15."""
    tenant_client, super_client = elastic.tenant_client, elastic.super_client
    space = await elastic.namespace()
    super_space = elastic.super_namespace(space)
    assert await items(super_client, NODES) == []

    async def ready() -> list[Object]:
        return [pod for pod in await items(tenant_client, PODS, namespace=space) if is_ready(pod)]

    async def scale(replicas: int) -> None:
        await tenant_client.patch(
            DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace=space
        )

    # From zero: the pods are Pending, Karpenter makes nodes, and the pods run.
    await tenant_client.create(DEPLOYMENTS, deployment("web", REPLICAS), namespace=space)
    await eventually(ready, until=lambda found: len(found) == REPLICAS, within=PATIENCE)
    nodes = {node["metadata"]["name"] for node in await items(super_client, NODES)}
    assert len(nodes) >= REPLICAS // 2  # two pods have room on a node
    assert {pod["spec"]["nodeName"] for pod in await ready()} == nodes
    assert {node["metadata"]["name"] for node in await items(tenant_client, NODES)} == nodes

    # The tenant is told by the autoscaler's own Event.
    def nominated(events: list[Object]) -> list[Object]:
        return [event for event in events if event["reason"] == "Nominated"]

    events = await eventually(
        lambda: items(tenant_client, EVENTS, namespace=space), until=nominated
    )
    assert all("Pod should schedule on" in event["message"] for event in nominated(events))
    assert elastic.tenant.root not in str(nominated(events))

    # The super admin takes a node: its pods go one after the other, as the tenant's budget allows.
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": REPLICAS - 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await tenant_client.create(POD_DISRUPTION_BUDGETS, budget, namespace=space)
    await eventually(
        lambda: super_client.get(POD_DISRUPTION_BUDGETS, "web", namespace=super_space),
        until=lambda twin: (twin.get("status") or {}).get("disruptionsAllowed") == 1,
    )
    claims = await items(super_client, NODE_CLAIMS)
    taken = next(claim for claim in claims if claim["status"]["nodeName"] in nodes)
    counts: list[int] = []

    async def is_drained() -> bool:
        pods = await items(super_client, PODS, namespace=super_space)
        counts.append(sum(map(is_ready, pods)))
        left = {node["metadata"]["name"] for node in await items(super_client, NODES)}
        return taken["status"]["nodeName"] not in left

    await super_client.delete(NODE_CLAIMS, taken["metadata"]["name"])
    await eventually(is_drained, within=PATIENCE)
    assert min(counts) == REPLICAS - 1, counts
    await eventually(ready, until=lambda found: len(found) == REPLICAS, within=PATIENCE)

    # Fewer pods need fewer nodes. None at the end, without a hand.
    await tenant_client.delete(POD_DISRUPTION_BUDGETS, "web", namespace=space)
    await scale(2)
    await eventually(
        lambda: items(super_client, NODES), until=lambda found: len(found) == 1, within=PATIENCE
    )
    await eventually(ready, until=lambda found: len(found) == 2, within=PATIENCE)
    await scale(0)
    await eventually(
        lambda: items(super_client, NODES), until=lambda found: not found, within=PATIENCE
    )
    await eventually(
        lambda: items(super_client, NODE_CLAIMS), until=lambda found: not found, within=PATIENCE
    )
    await eventually(
        lambda: items(tenant_client, NODES), until=lambda found: not found, within=PATIENCE
    )
