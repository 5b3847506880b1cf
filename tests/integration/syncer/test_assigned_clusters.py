"""A tenant's pods run in two super clusters, chosen by what they ask for: two real API servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kubeio.api.client import Client
from syncer.controllers.nodes import target_node_reconciler
from syncer.controllers.pods import unreachable_target
from syncer.lifecycle import target_outages, target_statuses
from tenancy import wellknown
from tenancy.names import SERVICE_VARIABLES
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer import target_world as target_worlds
from tests.integration.syncer.control_planes import begin_tenant, declare, tenant_plane
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import TargetWorld, open_target_world
from tests.integration.syncer.world import SYNCER, SyncerWorld, names_of_others
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address

SLICE_OF_ITS_OWN = "10.96.12.0/22"
THERE = {"type": "virtual-kubelet"}


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    for plane in target_worlds.running(tmp_path_factory.mktemp("second")):

        async def furnish(plane: LocalControlPlane = plane) -> None:
            async with Client(plane.endpoint) as client:
                await target_worlds.has_node(client)

        asyncio.run(furnish())
        yield plane


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    plane = tenant_plane(tmp_path_factory.mktemp("split"), "split", SLICE_OF_ITS_OWN)
    with serving(plane, begin=begin_tenant):
        yield plane


@pytest.fixture(scope="module")
def tenant(super_plane: LocalControlPlane, own_plane: LocalControlPlane) -> Iterator[Tenant]:
    async def make() -> Tenant:
        async with Client(super_plane.endpoint) as super_client:
            return await declare(super_client, own_plane, service_cidr=SLICE_OF_ITS_OWN)

    async def forget(tenant: Tenant) -> None:
        async with Client(super_plane.endpoint) as super_client:
            await super_client.delete(VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace)

    made = asyncio.run(make())
    yield made
    asyncio.run(forget(made))  # or every later syncer would call for it


@contextlib.asynccontextmanager
async def open_own_world(
    super_plane: LocalControlPlane, own_plane: LocalControlPlane, tenant: Tenant
) -> AsyncIterator[SyncerWorld]:
    """Have the world of a tenant with an API of its own. No syncer runs yet."""
    async with (
        Client(super_plane.endpoint) as super_client,
        Client(own_plane.endpoint) as tenant_client,
    ):
        world = SyncerWorld(
            super_plane=super_plane,
            tenant_plane=own_plane,
            tenant=tenant,
            super_client=super_client,
            tenant_client=tenant_client,
            others=await names_of_others(super_client, tenant_client, tenant),
        )
        yield world


@pytest.fixture
async def target_world(
    super_plane: LocalControlPlane,
    own_plane: LocalControlPlane,
    tenant: Tenant,
    second: LocalControlPlane,
) -> AsyncIterator[TargetWorld]:
    async with (
        open_own_world(super_plane, own_plane, tenant) as world,
        world.syncer(),
        open_target_world(world, second) as found,
    ):
        yield found


def writes_there(target_world: TargetWorld, since: Any) -> list[tuple[str, str]]:
    """Return verb and path of what the syncer wrote there."""
    events = target_world.plane.audit_events(since)
    verbs = {"create", "update", "patch", "delete"}
    return [
        (e["verb"], e["requestURI"])
        for e in events
        if e["user"].get("username") == SYNCER and e["verb"] in verbs
    ]


async def test_a_pod_runs_where_its_selector_leads_with_all_that_it_needs(
    target_world: TargetWorld,
):
    """A0-11, A0-16, A0-20, A1-11, A1-15, A2-10."""
    world = target_world.world
    await target_world.granted()
    space = await world.namespace()
    await world.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}}, namespace=space
    )
    volume = {"name": "c", "configMap": {"name": "c"}}
    posted = await world.tenant_client.create(
        PODS, pod("web", nodeSelector=THERE, volumes=[volume]), namespace=space
    )
    twin = await eventually(lambda: target_world.twin(space, "web"))
    assert (await target_world.twin(space, "c", CONFIG_MAPS))["data"] == {"a": "b"}
    assert not await world.has_twin(PODS, space, "web")
    assert not await world.has_twin(CONFIG_MAPS, space, "c")
    assert "nodeSelector" not in twin["spec"], "nobody there knows of it"
    registration = (target_world.target() or pytest.fail("not followed")).registration
    assert twin["metadata"]["labels"][wellknown.SUPER_CLUSTER] == registration
    assert twin["metadata"]["annotations"][wellknown.ASSIGNED_CLUSTER].startswith(
        f"{target_world.name}/"
    )
    assert twin["spec"]["containers"][0]["envFrom"] == [
        {"configMapRef": {"name": SERVICE_VARIABLES}}
    ]
    env = (await target_world.twin(space, SERVICE_VARIABLES, CONFIG_MAPS))["data"]
    assert (env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]) == ("192.0.2.8", "6443")
    assert twin["spec"]["dnsConfig"]["nameservers"] == ["10.98.0.10"]

    await target_world.start_pod(space, "web")
    seen = await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    assert seen["spec"] == {**posted["spec"], "nodeName": target_world.node}
    assert seen["status"]["podIP"] == "10.244.0.9"
    assert seen["metadata"]["annotations"][wellknown.ASSIGNED_CLUSTER].startswith(
        f"{target_world.name}/"
    )

    await world.tenant_client.delete(PODS, "web", namespace=space)
    await target_world.remove_pod(space, "web")
    await eventually(lambda: _is_gone(world, space, "web"))
    super_space = world.super_namespace(space)
    await eventually(lambda: _has_no_namespace(target_world, super_space), within=60)
    await world.super_client.get(NAMESPACES, super_space)


async def _is_gone(world: SyncerWorld, space: str, name: str) -> bool:
    found = await world.tenant_client.list(PODS, namespace=space)
    return name not in [each["metadata"]["name"] for each in found["items"]]


async def _has_no_namespace(target_world: TargetWorld, super_space: str) -> bool:
    found = await target_world.target_client.list(NAMESPACES)
    there = [e for e in found["items"] if e["metadata"]["name"] == super_space]
    return not there or "deletionTimestamp" in there[0]["metadata"]


async def test_a_node_that_its_tenant_cordons_accepts_no_new_pods_and_keeps_its_pods(
    target_world: TargetWorld,
):
    world = target_world.world
    await target_world.granted({"name": target_world.name})
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("runs"), namespace=space)
    await target_world.start_pod(space, "runs")
    await eventually(
        lambda: world.tenant_client.get(PODS, "runs", namespace=space),
        until=lambda found: condition(found, "Ready") == "True",
    )
    await world.tenant_client.patch(NODES, target_world.node, {"spec": {"unschedulable": True}})
    shown = world.session.stores["Node"]
    await eventually(lambda: shown.get("", target_world.node).decode()["spec"].get("unschedulable"))
    await world.tenant_client.create(PODS, pod("waits"), namespace=space)
    said = f"0/1 clusters are available: {target_world.name} is unschedulable."
    await eventually(lambda: why(world, space, "waits"), until=lambda text: text == said)
    await world.idle()
    assert not await target_world.has_twin(space, "waits")
    runs = await world.tenant_client.get(PODS, "runs", namespace=space)
    assert (runs["spec"]["nodeName"], condition(runs, "Ready")) == (target_world.node, "True")
    assert "deletionTimestamp" not in (await target_world.twin(space, "runs"))["metadata"]
    await world.tenant_client.patch(NODES, target_world.node, {"spec": {"unschedulable": None}})
    await eventually(lambda: target_world.twin(space, "waits"))


async def why(world: SyncerWorld, space: str, name: str) -> str:
    """Return why a pod is not scheduled, as its tenant reads it."""
    found = await world.tenant_client.get(PODS, name, namespace=space)
    conditions = found["status"].get("conditions", [])
    told = [c["message"] for c in conditions if c["type"] == "PodScheduled"]
    return str(told[0]) if told else ""


async def test_a_grant_for_some_namespaces_takes_no_pods_of_others(target_world: TargetWorld):
    """A0-09: by a namespace's labels, whose change counts."""
    world = target_world.world
    chosen = {"matchLabels": {"team": "a"}}
    await target_world.granted({"name": target_world.name, "namespaceSelector": chosen})
    inside, outside = await world.namespace(), await world.namespace()
    await world.tenant_client.patch(NAMESPACES, inside, {"metadata": {"labels": {"team": "a"}}})
    spaces = world.session.stores["Namespace"]
    await eventually(lambda: spaces.get("", inside).labels.get("team"))
    for space in (inside, outside):
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: target_world.twin(inside, "web"))
    said = f"0/1 clusters are available: {target_world.name} is not granted to this namespace."
    await eventually(lambda: why(world, outside, "web"), until=lambda text: text == said)
    assert not await target_world.has_twin(outside, "web")
    assert not await world.has_twin(PODS, outside, "web")
    await world.tenant_client.patch(NAMESPACES, outside, {"metadata": {"labels": {"team": "a"}}})
    await eventually(lambda: target_world.twin(outside, "web"))


async def replicated(target_world: TargetWorld, space: str) -> None:
    """Create ten pods of one controller."""
    # A controller of its own, as those of another test's count too, in whatever namespace.
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": f"r-{space}"}
    for number in range(10):
        body = pod(f"r-{number}")
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        await target_world.world.tenant_client.create(PODS, body, namespace=space)


async def split(target_world: TargetWorld, space: str) -> tuple[int, int]:
    """Return how many of them are here and there, once all have a twin."""

    async def counted() -> tuple[int, int]:
        super_space = target_world.world.super_namespace(space)
        here = (await target_world.world.super_client.list(PODS, namespace=super_space))["items"]
        there = (await target_world.target_client.list(PODS, namespace=super_space))["items"]
        names = [each["metadata"]["name"] for each in (*here, *there)]
        assert len(names) == len(set(names)), "a pod is in one of them only"
        return len(here), len(there)

    return await eventually(counted, until=lambda found: sum(found) == 10)


async def test_ten_replicas_are_split_evenly(target_world: TargetWorld):
    """A1-08."""
    await target_world.world.super_node()
    await target_world.granted()
    space = await target_world.world.namespace()
    await replicated(target_world, space)
    here, there = await split(target_world, space)
    assert abs(here - there) <= 2, (here, there)


async def test_a_new_pod_waits_while_a_target_is_followed_again(
    target_world: TargetWorld,
):
    """Otherwise all of them would stay at home because of a renewed credential."""
    await target_world.world.super_node()
    await target_world.granted()
    space = await target_world.world.namespace()
    system = await target_world.target_client.get(NAMESPACES, "kube-system")
    await target_world.judge(identity="another")
    await eventually(lambda: target_world.target() is None)
    await replicated(target_world, space)
    await target_world.judge(identity=system["metadata"]["uid"])
    here, there = await split(target_world, space)
    assert abs(here - there) <= 2, (here, there)


async def test_a_taint_keeps_off_pods_without_a_toleration_and_is_named(target_world: TargetWorld):
    """A2-04, A2-08."""
    world = target_world.world
    await target_world.secret()
    await target_world.declare(taints=[{"key": "eci", "effect": "NoSchedule"}])
    await target_world.grant({"name": target_world.name})
    await eventually(lambda: world.tenant_client.get(NODES, target_world.node))
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("out"), namespace=space)
    tolerating = [{"key": "eci", "operator": "Exists", "effect": "NoSchedule"}]
    await world.tenant_client.create(PODS, pod("in", tolerations=tolerating), namespace=space)
    await eventually(lambda: target_world.twin(space, "in"))
    seen = await eventually(
        lambda: world.tenant_client.get(PODS, "out", namespace=space),
        until=lambda found: found["status"].get("conditions"),
    )
    (condition,) = seen["status"]["conditions"]
    assert (condition["reason"], condition["status"]) == ("Unschedulable", "False")
    assert "had untolerated taint {eci:NoSchedule}" in condition["message"]
    assert not await target_world.has_twin(space, "out")
    assert not await world.has_twin(PODS, space, "out")


async def test_a_forged_record_moves_nothing(target_world: TargetWorld):
    world = target_world.world
    await target_world.granted()
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("web", nodeSelector=THERE), namespace=space)
    await eventually(lambda: target_world.twin(space, "web"))
    forged = {"metadata": {"annotations": {wellknown.ASSIGNED_CLUSTER: "home/0123456789abcdef"}}}
    await world.tenant_client.patch(PODS, "web", forged, namespace=space)
    await world.idle()
    assert await target_world.has_twin(space, "web")
    assert not await world.has_twin(PODS, space, "web")


async def test_a_restart_writes_nothing_there(target_world: TargetWorld):
    """A2-16."""
    world = target_world.world
    await target_world.granted()
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("web", nodeSelector=THERE), namespace=space)
    await target_world.start_pod(space, "web")
    await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    await world.idle()
    running = world.running[-1]
    since, before = target_world.plane.audit_mark(), world.mark("tenant")
    async with world.syncer() as another:
        assert another is not running
        await eventually(target_world.target)
        await eventually(lambda: another.tenants.sessions.get(target_world.name))
        await world.idle()
    assert writes_there(target_world, since) == []
    assert [w for w in world.writes("tenant", before) if w.resource.startswith("pods")] == []


async def test_a_pod_that_ran_at_home_before_the_grant_stays_there(target_world: TargetWorld):
    world = target_world.world
    node = await world.super_node()
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("old"), namespace=space)
    await world.start_pod(space, "old", node)
    await target_world.granted({"name": target_world.name})
    await world.tenant_client.create(PODS, pod("new"), namespace=space)
    await eventually(lambda: target_world.twin(space, "new"))
    await world.idle()
    assert await world.has_twin(PODS, space, "old")
    assert not await target_world.has_twin(space, "old")


async def test_where_no_node_is_found_the_next_cluster_is_tried(target_world: TargetWorld):
    """A0-13: one twin at a time: the old one is gone before the new one is made."""
    world = target_world.world
    await world.super_node()
    await target_world.granted(
        {"name": "home", "weight": 1000}, {"name": target_world.name, "weight": 1}
    )
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: world.twin(PODS, space, "web"))
    since = world.mark("super")
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await world.report(space, "web", conditions=[condition])
    await eventually(lambda: target_world.twin(space, "web"))
    assert not await world.has_twin(PODS, space, "web")
    deleted = [
        w for w in world.writes("super", since) if (w.verb, w.resource) == ("delete", "pods")
    ]
    assert len(deleted) == 1
    await target_world.start_pod(space, "web")
    seen = await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    assert seen["spec"]["nodeName"] == target_world.node


async def test_a_target_that_is_not_declared_is_reported(target_world: TargetWorld):
    await target_world.grant({"name": "home"}, {"name": "nowhere"})
    told = await eventually(
        lambda: target_world.world.condition(wellknown.TARGETS_GRANTED),
        until=lambda found: found and found["status"] == "False",
    )
    assert told is not None
    assert told["reason"] == "NoSuchTarget"
    assert "There is no SuperCluster nowhere" in told["message"]


def condition(body: Any, kind: str) -> str:
    found = [c for c in body["status"].get("conditions", []) if c["type"] == kind]
    return str(found[0]["status"]) if found else ""


async def test_a_grant_for_the_elected_takes_no_others(target_world: TargetWorld):
    """A0-09, A0-10, A1-07: by an annotation, once the namespace has the label."""
    world = target_world.world
    await target_world.granted({"name": target_world.name, "pods": "elected"})
    space = await world.namespace()
    elected = pod("elected")
    elected["metadata"]["annotations"] = {"multicluster.admiralty.io/elect": ""}
    for body in (elected, pod("other")):
        await world.tenant_client.create(PODS, body, namespace=space)

    said = f"0/1 clusters are available: {target_world.name} accepts only pods with the annotation"
    for name in ("elected", "other"):
        await eventually(lambda name=name: why(world, space, name), until=lambda text: said in text)
    enabled = {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
    await world.tenant_client.patch(NAMESPACES, space, enabled)
    await eventually(lambda: target_world.twin(space, "elected"))
    assert not await target_world.has_twin(space, "other")


async def test_a_target_that_falls_silent_loses_nothing_and_delays_no_pod(
    target_world: TargetWorld, monkeypatch: pytest.MonkeyPatch
):
    """A1-17."""
    monkeypatch.setattr("syncer.clusters.target_cluster.HEALTH_CHECK_SECONDS", 0.2)
    owners = (unreachable_target, target_node_reconciler, target_outages, target_statuses)
    for module in owners:
        monkeypatch.setattr(module, "UNREACHABLE_SECONDS", 1.0)
    world = target_world.world
    await target_world.granted()
    space = await world.namespace()
    for name in ("stays", "goes"):
        await world.tenant_client.create(PODS, pod(name, nodeSelector=THERE), namespace=space)
        await target_world.start_pod(space, name)
        await eventually(
            lambda name=name: world.tenant_client.get(PODS, name, namespace=space),
            until=lambda found: condition(found, "Ready") == "True",
        )
    await world.idle()
    since = target_world.plane.audit_mark()
    target_world.plane.pause_apiserver()
    try:
        await eventually(
            lambda: world.tenant_client.get(NODES, target_world.node),
            until=lambda found: condition(found, "Ready") == "Unknown",
        )
        node = await world.tenant_client.get(NODES, target_world.node)
        assert "node.kubernetes.io/unreachable" in [t["key"] for t in node["spec"]["taints"]]
        await eventually(
            lambda: world.tenant_client.get(PODS, "stays", namespace=space),
            until=lambda found: condition(found, "Ready") == "False",
        )
        await world.tenant_client.delete(PODS, "goes", namespace=space)
        await world.tenant_client.create(PODS, pod("here"), namespace=space)
        await eventually(lambda: world.twin(PODS, space, "here"))
        assert not await _is_gone(world, space, "goes")
    finally:
        target_world.plane.resume_apiserver()
    await eventually(
        lambda: world.tenant_client.get(NODES, target_world.node),
        until=lambda found: condition(found, "Ready") == "True",
        within=60,
    )
    await target_world.remove_pod(space, "goes")
    await eventually(lambda: _is_gone(world, space, "goes"))
    await eventually(
        lambda: world.tenant_client.get(PODS, "stays", namespace=space),
        until=lambda found: condition(found, "Ready") == "True",
    )
    deleted = [path for verb, path in writes_there(target_world, since) if verb == "delete"]
    assert deleted
    assert all("/pods/goes" in path for path in deleted), deleted
