"""A tenant's pods run in two super clusters, chosen by what they ask for: two real API servers."""

from __future__ import annotations

import asyncio
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
from tests.integration.syncer import far as fars
from tests.integration.syncer.far import TargetWorld, far_of
from tests.integration.syncer.objects import pod
from tests.integration.syncer.planes import begin_tenant, declare, tenant_plane
from tests.integration.syncer.world import SYNCER, SyncerWorld, names_of_others
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address

SLICE_OF_ITS_OWN = "10.96.12.0/22"
THERE = {"type": "virtual-kubelet"}


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    for plane in fars.running(tmp_path_factory.mktemp("second")):

        async def furnish(plane: LocalControlPlane = plane) -> None:
            async with Client(plane.endpoint) as client:
                await fars.has_node(client)

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


@pytest.fixture
async def far(
    super_plane: LocalControlPlane,
    own_plane: LocalControlPlane,
    tenant: Tenant,
    second: LocalControlPlane,
) -> AsyncIterator[TargetWorld]:
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
        async with world.syncer(), far_of(world, second) as found:
            yield found


def writes_there(far: TargetWorld, since: Any) -> list[tuple[str, str]]:
    """Return verb and path of what the syncer wrote there."""
    events = far.plane.audit_events(since)
    verbs = {"create", "update", "patch", "delete"}
    return [
        (e["verb"], e["requestURI"])
        for e in events
        if e["user"].get("username") == SYNCER and e["verb"] in verbs
    ]


async def test_a_pod_runs_where_its_selector_leads_with_all_that_it_needs(far: TargetWorld):
    """A0-11, A0-16, A0-20, A1-11, A1-15, A2-10."""
    world = far.world
    await far.granted()
    space = await world.namespace()
    await world.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}}, namespace=space
    )
    volume = {"name": "c", "configMap": {"name": "c"}}
    posted = await world.tenant_client.create(
        PODS, pod("web", nodeSelector=THERE, volumes=[volume]), namespace=space
    )
    twin = await eventually(lambda: far.twin(space, "web"))
    assert (await far.twin(space, "c", CONFIG_MAPS))["data"] == {"a": "b"}
    assert not await world.has_twin(PODS, space, "web")
    assert not await world.has_twin(CONFIG_MAPS, space, "c")
    assert "nodeSelector" not in twin["spec"], "nobody there knows of it"
    registration = (far.target() or pytest.fail("not followed")).registration
    assert twin["metadata"]["labels"][wellknown.SUPER_CLUSTER] == registration
    assert twin["metadata"]["annotations"][wellknown.ASSIGNED_CLUSTER].startswith(f"{far.name}/")
    assert twin["spec"]["containers"][0]["envFrom"] == [
        {"configMapRef": {"name": SERVICE_VARIABLES}}
    ]
    env = (await far.twin(space, SERVICE_VARIABLES, CONFIG_MAPS))["data"]
    assert (env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]) == ("192.0.2.8", "6443")
    assert twin["spec"]["dnsConfig"]["nameservers"] == ["10.98.0.10"]

    await far.start_pod(space, "web")
    seen = await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    assert seen["spec"] == {**posted["spec"], "nodeName": far.node}
    assert seen["status"]["podIP"] == "10.244.0.9"
    assert seen["metadata"]["annotations"][wellknown.ASSIGNED_CLUSTER].startswith(f"{far.name}/")

    await world.tenant_client.delete(PODS, "web", namespace=space)
    await far.remove_pod(space, "web")
    await eventually(lambda: _is_gone(world, space, "web"))
    super_space = world.super_namespace(space)
    await eventually(lambda: _has_no_namespace(far, super_space), within=60)
    await world.super_client.get(NAMESPACES, super_space)


async def _is_gone(world: SyncerWorld, space: str, name: str) -> bool:
    found = await world.tenant_client.list(PODS, namespace=space)
    return name not in [each["metadata"]["name"] for each in found["items"]]


async def _has_no_namespace(far: TargetWorld, super_space: str) -> bool:
    found = await far.there.list(NAMESPACES)
    there = [e for e in found["items"] if e["metadata"]["name"] == super_space]
    return not there or "deletionTimestamp" in there[0]["metadata"]


async def test_a_node_that_its_tenant_cordons_takes_no_more_and_keeps_what_runs(far: TargetWorld):
    world = far.world
    await far.granted({"name": far.name})
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("runs"), namespace=space)
    await far.start_pod(space, "runs")
    await eventually(
        lambda: world.tenant_client.get(PODS, "runs", namespace=space),
        until=lambda found: condition(found, "Ready") == "True",
    )
    await world.tenant_client.patch(NODES, far.node, {"spec": {"unschedulable": True}})
    shown = world.session.stores["Node"]
    await eventually(lambda: shown.get("", far.node).decode()["spec"].get("unschedulable"))
    await world.tenant_client.create(PODS, pod("waits"), namespace=space)
    said = f"0/1 clusters are available: {far.name} is unschedulable."
    await eventually(lambda: why(world, space, "waits"), until=lambda text: text == said)
    await world.idle()
    assert not await far.has_twin(space, "waits")
    runs = await world.tenant_client.get(PODS, "runs", namespace=space)
    assert (runs["spec"]["nodeName"], condition(runs, "Ready")) == (far.node, "True")
    assert "deletionTimestamp" not in (await far.twin(space, "runs"))["metadata"]
    await world.tenant_client.patch(NODES, far.node, {"spec": {"unschedulable": None}})
    await eventually(lambda: far.twin(space, "waits"))


async def why(world: SyncerWorld, space: str, name: str) -> str:
    """Return why a pod is not scheduled, as its tenant reads it."""
    found = await world.tenant_client.get(PODS, name, namespace=space)
    conditions = found["status"].get("conditions", [])
    told = [c["message"] for c in conditions if c["type"] == "PodScheduled"]
    return str(told[0]) if told else ""


async def test_a_grant_for_some_namespaces_takes_no_pods_of_others(far: TargetWorld):
    """A0-09: by a namespace's labels, whose change counts."""
    world = far.world
    chosen = {"matchLabels": {"team": "a"}}
    await far.granted({"name": far.name, "namespaceSelector": chosen})
    inside, outside = await world.namespace(), await world.namespace()
    await world.tenant_client.patch(NAMESPACES, inside, {"metadata": {"labels": {"team": "a"}}})
    spaces = world.session.stores["Namespace"]
    await eventually(lambda: spaces.get("", inside).labels.get("team"))
    for space in (inside, outside):
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: far.twin(inside, "web"))
    said = f"0/1 clusters are available: {far.name} is not granted to this namespace."
    await eventually(lambda: why(world, outside, "web"), until=lambda text: text == said)
    assert not await far.has_twin(outside, "web")
    assert not await world.has_twin(PODS, outside, "web")
    await world.tenant_client.patch(NAMESPACES, outside, {"metadata": {"labels": {"team": "a"}}})
    await eventually(lambda: far.twin(outside, "web"))


async def replicated(far: TargetWorld, space: str) -> None:
    """Create ten pods of one controller."""
    # A controller of its own, as those of another test's count too, in whatever namespace.
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": f"r-{space}"}
    for number in range(10):
        body = pod(f"r-{number}")
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        await far.world.tenant_client.create(PODS, body, namespace=space)


async def split(far: TargetWorld, space: str) -> tuple[int, int]:
    """Return how many of them are here and there, once all have a twin."""

    async def counted() -> tuple[int, int]:
        super_space = far.world.super_namespace(space)
        here = (await far.world.super_client.list(PODS, namespace=super_space))["items"]
        there = (await far.there.list(PODS, namespace=super_space))["items"]
        names = [each["metadata"]["name"] for each in (*here, *there)]
        assert len(names) == len(set(names)), "a pod is in one of them only"
        return len(here), len(there)

    return await eventually(counted, until=lambda found: sum(found) == 10)


async def test_ten_replicas_are_split_evenly(far: TargetWorld):
    """A1-08."""
    await far.world.super_node()
    await far.granted()
    space = await far.world.namespace()
    await replicated(far, space)
    here, there = await split(far, space)
    assert abs(here - there) <= 2, (here, there)


async def test_who_comes_while_a_target_is_followed_anew_waits_for_it_a_moment(far: TargetWorld):
    """Or all of them would run at home for good, because a credential was renewed just then."""
    await far.world.super_node()
    await far.granted()
    space = await far.world.namespace()
    system = await far.there.get(NAMESPACES, "kube-system")
    await far.judge(identity="another")
    await eventually(lambda: far.target() is None)
    await replicated(far, space)
    await far.judge(identity=system["metadata"]["uid"])
    here, there = await split(far, space)
    assert abs(here - there) <= 2, (here, there)


async def test_a_taint_keeps_off_whom_it_does_not_concern_and_is_named(far: TargetWorld):
    """A2-04, A2-08."""
    world = far.world
    await far.secret()
    await far.declare(taints=[{"key": "eci", "effect": "NoSchedule"}])
    await far.grant({"name": far.name})
    await eventually(lambda: world.tenant_client.get(NODES, far.node))
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("out"), namespace=space)
    tolerating = [{"key": "eci", "operator": "Exists", "effect": "NoSchedule"}]
    await world.tenant_client.create(PODS, pod("in", tolerations=tolerating), namespace=space)
    await eventually(lambda: far.twin(space, "in"))
    seen = await eventually(
        lambda: world.tenant_client.get(PODS, "out", namespace=space),
        until=lambda found: found["status"].get("conditions"),
    )
    (condition,) = seen["status"]["conditions"]
    assert (condition["reason"], condition["status"]) == ("Unschedulable", "False")
    assert "had untolerated taint {eci:NoSchedule}" in condition["message"]
    assert not await far.has_twin(space, "out")
    assert not await world.has_twin(PODS, space, "out")


async def test_a_forged_record_moves_nothing(far: TargetWorld):
    world = far.world
    await far.granted()
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("web", nodeSelector=THERE), namespace=space)
    await eventually(lambda: far.twin(space, "web"))
    forged = {"metadata": {"annotations": {wellknown.ASSIGNED_CLUSTER: "home/0123456789abcdef"}}}
    await world.tenant_client.patch(PODS, "web", forged, namespace=space)
    await world.idle()
    assert await far.has_twin(space, "web")
    assert not await world.has_twin(PODS, space, "web")


async def test_a_restart_writes_nothing_there(far: TargetWorld):
    """A2-16."""
    world = far.world
    await far.granted()
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("web", nodeSelector=THERE), namespace=space)
    await far.start_pod(space, "web")
    await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    await world.idle()
    running = world.running[-1]
    since, before = far.plane.audit_mark(), world.mark("tenant")
    async with world.syncer() as another:
        assert another is not running
        await eventually(far.target)
        await eventually(lambda: another.tenants.sessions.get(far.name))
        await world.idle()
    assert writes_there(far, since) == []
    assert [w for w in world.writes("tenant", before) if w.resource.startswith("pods")] == []


async def test_a_pod_that_ran_at_home_before_the_grant_stays_there(far: TargetWorld):
    world = far.world
    node = await world.super_node()
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("old"), namespace=space)
    await world.start_pod(space, "old", node)
    await far.granted({"name": far.name})
    await world.tenant_client.create(PODS, pod("new"), namespace=space)
    await eventually(lambda: far.twin(space, "new"))
    await world.idle()
    assert await world.has_twin(PODS, space, "old")
    assert not await far.has_twin(space, "old")


async def test_where_no_node_is_found_the_next_cluster_is_tried(far: TargetWorld):
    """A0-13: one twin at a time: the old one is gone before the new one is made."""
    world = far.world
    await world.super_node()
    await far.granted({"name": "home", "weight": 1000}, {"name": far.name, "weight": 1})
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
    await eventually(lambda: far.twin(space, "web"))
    assert not await world.has_twin(PODS, space, "web")
    deleted = [
        w for w in world.writes("super", since) if (w.verb, w.resource) == ("delete", "pods")
    ]
    assert len(deleted) == 1
    await far.start_pod(space, "web")
    seen = await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    assert seen["spec"]["nodeName"] == far.node


async def test_a_target_that_nobody_declared_is_told(far: TargetWorld):
    await far.grant({"name": "home"}, {"name": "nowhere"})
    told = await eventually(
        lambda: far.world.condition(wellknown.TARGETS_GRANTED),
        until=lambda found: found and found["status"] == "False",
    )
    assert told is not None
    assert told["reason"] == "NoSuchTarget"
    assert "There is no SuperCluster nowhere" in told["message"]


def condition(body: Any, kind: str) -> str:
    found = [c for c in body["status"].get("conditions", []) if c["type"] == kind]
    return str(found[0]["status"]) if found else ""


async def test_a_grant_for_the_elected_takes_no_others(far: TargetWorld):
    """A0-09, A0-10, A1-07: by an annotation, once the namespace has the label."""
    world = far.world
    await far.granted({"name": far.name, "pods": "elected"})
    space = await world.namespace()
    elected = pod("elected")
    elected["metadata"]["annotations"] = {"multicluster.admiralty.io/elect": ""}
    for body in (elected, pod("other")):
        await world.tenant_client.create(PODS, body, namespace=space)

    said = f"0/1 clusters are available: {far.name} accepts only pods with the annotation"
    for name in ("elected", "other"):
        await eventually(lambda name=name: why(world, space, name), until=lambda text: said in text)
    enabled = {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
    await world.tenant_client.patch(NAMESPACES, space, enabled)
    await eventually(lambda: far.twin(space, "elected"))
    assert not await far.has_twin(space, "other")


async def test_a_target_that_falls_silent_loses_nothing_and_holds_nobody_up(
    far: TargetWorld, monkeypatch: pytest.MonkeyPatch
):
    """A1-17."""
    monkeypatch.setattr("syncer.clusters.target_cluster.HEALTH_CHECK_SECONDS", 0.2)
    owners = (unreachable_target, target_node_reconciler, target_outages, target_statuses)
    for module in owners:
        monkeypatch.setattr(module, "UNREACHABLE_SECONDS", 1.0)
    world = far.world
    await far.granted()
    space = await world.namespace()
    for name in ("stays", "goes"):
        await world.tenant_client.create(PODS, pod(name, nodeSelector=THERE), namespace=space)
        await far.start_pod(space, name)
        await eventually(
            lambda name=name: world.tenant_client.get(PODS, name, namespace=space),
            until=lambda found: condition(found, "Ready") == "True",
        )
    await world.idle()
    since = far.plane.audit_mark()
    far.plane.pause_apiserver()
    try:
        await eventually(
            lambda: world.tenant_client.get(NODES, far.node),
            until=lambda found: condition(found, "Ready") == "Unknown",
        )
        node = await world.tenant_client.get(NODES, far.node)
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
        far.plane.resume_apiserver()
    await eventually(
        lambda: world.tenant_client.get(NODES, far.node),
        until=lambda found: condition(found, "Ready") == "True",
        within=60,
    )
    await far.remove_pod(space, "goes")
    await eventually(lambda: _is_gone(world, space, "goes"))
    await eventually(
        lambda: world.tenant_client.get(PODS, "stays", namespace=space),
        until=lambda found: condition(found, "Ready") == "True",
    )
    deleted = [path for verb, path in writes_there(far, since) if verb == "delete"]
    assert deleted
    assert all("/pods/goes" in path for path in deleted), deleted
