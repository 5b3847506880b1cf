"""Events of the super cluster in the tenant: made, growing, of both APIs, without foreign names."""

from __future__ import annotations

from kubeio import Object
from tenancy import names, ownership, wellknown
from tenancy.resources import EVENTS, NAMESPACES, PODS, VIRTUAL_CLUSTERS, Resource
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.world import HOME, SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name

NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
BEGAN = "2026-01-01T00:00:00.000000Z"


async def placed(world: SyncerWorld) -> tuple[str, str, Object]:
    """Have a pod run. Returns its namespace, its node and its twin."""
    space, node = await world.namespace(), await world.super_node()
    await world.tenant_client.create(PODS, pod("web"), namespace=space)
    await world.start_pod(space, "web", node)
    return space, node, await world.twin(PODS, space, "web")


def about(twin: Object) -> Object:
    """Return a reference to a super pod."""
    metadata = twin["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


async def shown(world: SyncerWorld, space: str, name: str, **fields: object) -> Object:
    """Wait until the tenant has an Event with these fields."""
    return await eventually(
        lambda: world.tenant_client.get(EVENTS, name, namespace=space),
        until=lambda event: all(event.get(key) == value for key, value in fields.items()),
    )


async def test_an_event_grows_in_the_tenant_as_it_grows_in_the_super_cluster(synced: SyncerWorld):
    space, node, twin = await placed(synced)
    super_space = twin["metadata"]["namespace"]
    event = {
        "metadata": {"name": "web.1", "namespace": super_space},
        "involvedObject": about(twin),
        "reason": "BackOff",
        "message": "restarting",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "kubelet", "host": node},
    }
    await synced.super_client.create(EVENTS, event)
    await shown(synced, space, "web.1", count=1)
    since = synced.mark("tenant")
    grown = {"count": 7, "lastTimestamp": "2026-01-01T00:09:00Z"}
    await synced.super_client.patch(EVENTS, "web.1", grown, namespace=super_space)
    told = await shown(synced, space, "web.1", **grown)
    assert told["source"] == {"component": "kubelet", "host": node}
    assert told["firstTimestamp"] == "2026-01-01T00:00:00Z"
    # Gone in the tenant by its own time to live: the next occurrence creates it again.
    await synced.tenant_client.delete(EVENTS, "web.1", namespace=space)
    await synced.super_client.patch(EVENTS, "web.1", {"count": 8}, namespace=super_space)
    await shown(synced, space, "web.1", count=8)
    await synced.idle()
    writes = [w for w in synced.writes("tenant", since) if w.namespace == space]
    assert [w.verb for w in writes if w.resource == "events"] == ["patch", "patch", "create"]


async def test_an_event_grows_after_a_restart_too(world: SyncerWorld):
    async with world.syncer():
        space, _, twin = await placed(world)
        super_space = twin["metadata"]["namespace"]
        event = {
            "metadata": {"name": "web.2", "namespace": super_space},
            "involvedObject": about(twin),
            "reason": "BackOff",
            "message": "m",
            "type": "Warning",
            "count": 1,
        }
        await world.super_client.create(EVENTS, event)
        await shown(world, space, "web.2", count=1)
    async with world.syncer():
        await world.super_client.patch(EVENTS, "web.2", {"count": 2}, namespace=super_space)
        await shown(world, space, "web.2", count=2)


async def test_an_event_of_the_newer_api_keeps_its_series(synced: SyncerWorld):
    space, node, twin = await placed(synced)
    super_space = twin["metadata"]["namespace"]
    event = {
        "metadata": {"name": "web.3", "namespace": super_space},
        "regarding": about(twin),
        "eventTime": BEGAN,
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"assigned {super_space}/web to {node}",
        "type": "Normal",
        "reportingController": "default-scheduler",
        "reportingInstance": f"{super_space}/default-scheduler-{node}",
    }
    await synced.super_client.create(NEW_EVENTS, event)
    await shown(synced, space, "web.3")
    series = {"count": 3, "lastObservedTime": "2026-01-01T00:05:00.000000Z"}
    await synced.super_client.patch(NEW_EVENTS, "web.3", {"series": series}, namespace=super_space)
    await shown(synced, space, "web.3", series=series)
    told = await synced.tenant_client.get(NEW_EVENTS, "web.3", namespace=space)
    own = await synced.tenant_client.get(PODS, "web", namespace=space)
    assert told["regarding"]["uid"] == own["metadata"]["uid"]
    assert told["regarding"]["namespace"] == space
    assert (told["eventTime"], told["action"]) == (BEGAN, "Binding")
    assert told["reportingController"] == "default-scheduler"
    assert told["reportingInstance"] == f"{space}/default-scheduler-{node}"
    assert told["note"] == f"assigned {space}/web to {node}"


async def test_names_that_are_not_the_tenants_do_not_reach_it(synced: SyncerWorld):
    """Another tenant's root and super namespace, an agent, a node that is not shown."""
    space, node, twin = await placed(synced)
    super_space = twin["metadata"]["namespace"]
    long_space = await synced.namespace(f"{fresh_name('long')}-{'z' * 50}"[:63])
    other = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": fresh_name("vc"), "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    }
    made = await synced.super_client.create(VIRTUAL_CLUSTERS, other)
    uid, name = made["metadata"]["uid"], made["metadata"]["name"]
    root = names.build_root_namespace("default", name, uid)
    theirs = ownership.Tenant(name=name, namespace="default", uid=uid, root=root)
    foreign = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": f"{root}-shop",
            "labels": ownership.build_owner_labels(theirs, "shop"),
            "annotations": ownership.build_owner_annotations(theirs, "shop", "x"),
        },
    }
    await synced.super_client.create(NAMESPACES, foreign)
    hidden = await synced.super_node(fresh_name("hidden"))
    agent = pod(fresh_name("vn-agent"))
    agent["metadata"]["labels"] = {"app.kubernetes.io/name": wellknown.AGENT}
    agent["spec"]["serviceAccountName"] = "default"
    await eventually(lambda: synced.super_client.create(PODS, agent, namespace=HOME))
    caches = synced.running[-1].home
    agent_name = agent["metadata"]["name"]
    await eventually(
        lambda: (
            caches.nodes.get("", hidden)
            and caches.agent_pods.get(HOME, agent_name)
            and caches.stores["Namespace"].get("", f"{root}-shop")
            and caches.virtual_clusters.get("default", name)
        )
    )
    message = (
        f"{root}-shop/p and {root}: no; {synced.super_namespace(long_space)}/p on {node}, not"
        f" {hidden}; asked {HOME}/{agent_name}."
    )
    event = {
        "metadata": {"name": "web.4", "namespace": super_space},
        "involvedObject": about(twin),
        "reason": "Odd",
        "message": message,
        "type": "Normal",
        "reportingComponent": f"{root}-shop",
        "reportingInstance": f"{agent_name} on {hidden}",
        "source": {"component": f"{root}-shop", "host": hidden},
    }
    await synced.super_client.create(EVENTS, event)
    told = await shown(synced, space, "web.4")
    waiting = {"waiting": {"reason": "CreateContainerError", "message": message}}
    status = running_status("web")
    await synced.report(
        space,
        "web",
        message=message,
        conditions=[{**item, "message": message} for item in status["conditions"]],
        containerStatuses=[{**status["containerStatuses"][0], "state": waiting}],
    )
    said = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"].get("message"),
    )
    await synced.super_client.delete(VIRTUAL_CLUSTERS, name, namespace="default")
    await synced.super_client.delete(NAMESPACES, f"{root}-shop")
    clean = (
        f"another-namespace/p and another-namespace: no; {long_space}/p on {node}, not"
        f" another-node; asked {HOME}/node-agent."
    )
    assert told["message"] == clean
    assert said["status"]["message"] == clean
    assert {item["message"] for item in said["status"]["conditions"]} == {clean}
    state = said["status"]["containerStatuses"][0]["state"]
    assert state["waiting"]["message"] == clean
    assert told["reportingComponent"] == "another-namespace"
    assert told["reportingInstance"] == "node-agent on another-node"
    assert told["source"] == {"component": "another-namespace", "host": "another-node"}
