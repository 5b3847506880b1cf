"""Changes of running pods by a tenant, beside additions of the super cluster's webhooks."""

from __future__ import annotations

import asyncio

import pytest

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, EVENTS, PODS, SERVICES
from tests.integration.syncer.admission import mutated
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.eventually import eventually

LABEL_CHANGES = 1000


async def running(world: SyncerWorld, body: Object) -> str:
    """Have a pod run on a node of its own. Returns its namespace."""
    space, node = await world.namespace(), await world.super_node()
    await world.tenant_client.create(PODS, body, namespace=space)
    await world.start_pod(space, body["metadata"]["name"], node)
    return space


async def debug(world: SyncerWorld, space: str, name: str, **fields: object) -> None:
    """Add an ephemeral container as `kubectl debug` does."""
    added = {"name": name, "image": "registry.example/debug:1", **fields}
    await world.tenant_client.patch(
        PODS,
        "web",
        {"spec": {"ephemeralContainers": [added]}},
        kind="strategic",
        namespace=space,
        subresource="ephemeralcontainers",
    )


async def told(world: SyncerWorld, space: str, rule: str) -> Object:
    """Wait for an Event that names a rule."""
    found = await eventually(
        lambda: world.tenant_client.list(EVENTS, namespace=space),
        until=lambda events: any(rule in item["message"] for item in events["items"]),
    )
    return next(item for item in found["items"] if rule in item["message"])


async def test_a_debug_container_goes_down_and_its_status_comes_up(synced: SyncerWorld):
    space = await running(synced, pod("web"))
    await synced.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "tools"}, "data": {"A": "1"}}, namespace=space
    )
    await eventually(lambda: synced.session.stores["ConfigMap"].get(space, "tools"))
    await debug(
        synced,
        space,
        "debugger",
        targetContainerName="main",
        stdin=True,
        tty=True,
        envFrom=[{"configMapRef": {"name": "tools"}}],
        env=[{"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
    )
    twin = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: body["spec"].get("ephemeralContainers"),
    )
    container = twin["spec"]["ephemeralContainers"][0]
    assert (container["name"], container["targetContainerName"]) == ("debugger", "main")
    assert (container["stdin"], container["tty"]) == (True, True)
    where = next(item for item in container["env"] if item["name"] == "WHERE")
    assert wellknown.NAMESPACE in where["valueFrom"]["fieldRef"]["fieldPath"]
    assert twin["metadata"]["annotations"][wellknown.CONTAINERS] == "main,debugger"
    assert (await synced.twin(CONFIG_MAPS, space, "tools"))["data"] == {"A": "1"}
    began = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "name": "debugger",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": began,
    }
    await synced.report(space, "web", ephemeralContainerStatuses=[status])
    shown = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"].get("ephemeralContainerStatuses"),
    )
    assert shown["status"]["ephemeralContainerStatuses"][0]["state"] == began


async def test_a_debug_container_that_is_not_offered_is_reported_and_the_next_one_goes(
    synced: SyncerWorld,
):
    space = await running(synced, pod("web"))
    since = synced.mark("super")
    await debug(synced, space, "root", securityContext={"privileged": True})
    event = await told(synced, space, "rule privileged")
    assert "spec.ephemeralContainers[0]" in event["message"]
    await synced.idle()
    assert not (await synced.twin(PODS, space, "web"))["spec"].get("ephemeralContainers")
    assert [write for write in synced.writes("super", since) if write.name == "web"] == []
    await debug(synced, space, "plain")
    twin = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: body["spec"].get("ephemeralContainers"),
    )
    assert [item["name"] for item in twin["spec"]["ephemeralContainers"]] == ["plain"]
    assert twin["metadata"]["annotations"][wellknown.CONTAINERS] == "main,plain"
    await synced.idle()
    events = (await synced.tenant_client.list(EVENTS, namespace=space))["items"]
    # Its place in the list may be another one now, which is said.
    assert len(events) <= 2
    assert all("rule privileged" in item["message"] for item in events)


async def test_a_debugger_of_the_super_admin_stays_out_of_reach(synced: SyncerWorld):
    """The tenant takes the name of a container that another writer added to the super pod."""
    space = await running(synced, pod("web"))
    body = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "i:1"}]}}
    await synced.super_client.patch(
        PODS,
        "web",
        body,
        kind="strategic",
        namespace=synced.super_namespace(space),
        subresource="ephemeralcontainers",
    )
    super_space = synced.super_namespace(space)
    await eventually(
        lambda: synced.session.twins.get_store("Pod").get(super_space, "web"),
        until=lambda entry: entry is not None and b'"debugger"' in entry.body,
    )
    await debug(synced, space, "debugger")
    await told(synced, space, "rule name-taken")
    twin = await synced.twin(PODS, space, "web")
    assert twin["metadata"]["annotations"][wellknown.CONTAINERS] == "main"


def sized(cpu: str) -> list[Object]:
    """Return a container with requests and limits."""
    return [
        {
            "name": "main",
            "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}},
        }
    ]


async def test_a_resize_goes_down_and_what_became_of_it_comes_up(synced: SyncerWorld):
    """SEC-20: within what the super cluster takes. No client is answered too early."""
    space = await running(synced, pod("web", containers=sized("100m")))
    made = await synced.twin(PODS, space, "web")
    status = running_status("web")
    real = {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}
    container = {**status["containerStatuses"][0], "resources": real}
    container["allocatedResources"] = {"cpu": "100m"}
    # An API server lets no one resize a pod whose kubelet does not say what it has.
    observed = {"observedGeneration": made["metadata"]["generation"]}
    await synced.report(space, "web", containerStatuses=[container], **observed)
    before = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"]["containerStatuses"][0].get("resources") == real,
    )
    assert before["status"]["observedGeneration"] == before["metadata"]["generation"]
    since, told = synced.mark("super"), synced.mark("tenant")
    await synced.tenant_client.patch(
        PODS,
        "web",
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
        kind="strategic",
        namespace=space,
        subresource="resize",
    )
    twin = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: (
            body["spec"]["containers"][0]["resources"]
            == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
        ),
    )
    await synced.idle()
    assert [w for w in synced.writes("tenant", told) if w.resource == "pods/status"] == []
    unseen = await synced.tenant_client.get(PODS, "web", namespace=space)
    assert unseen["status"]["observedGeneration"] == unseen["metadata"]["generation"] - 1
    observed = {"observedGeneration": twin["metadata"]["generation"]}
    waiting = {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "Node didn't have enough resource: cpu",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await synced.report(
        space,
        "web",
        conditions=[*status["conditions"], waiting],
        containerStatuses=[container],
        **observed,
    )
    shown = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: any(
            condition["type"] == "PodResizePending" for condition in body["status"]["conditions"]
        ),
    )
    assert shown["status"]["containerStatuses"][0]["allocatedResources"] == {"cpu": "100m"}
    assert shown["status"]["observedGeneration"] == shown["metadata"]["generation"]
    await synced.report(space, "web", **status)
    await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: "PodResizePending" not in str(body["status"]["conditions"]),
    )
    await synced.idle()
    resizes = [w for w in synced.writes("super", since) if w.resource == "pods/resize"]
    assert len(resizes) == 1


async def test_a_sidecar_and_an_init_container_go_down(synced: SyncerWorld):
    space = await synced.namespace()
    init = [
        {"name": "proxy", "image": "i:1", "restartPolicy": "Always"},
        {"name": "setup", "image": "i:1"},
    ]
    await synced.tenant_client.create(PODS, pod("web", initContainers=init), namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "web"))
    found = [(c["name"], c.get("restartPolicy")) for c in twin["spec"]["initContainers"]]
    assert found == [("proxy", "Always"), ("setup", None)]
    assert twin["metadata"]["annotations"][wellknown.CONTAINERS] == "proxy,setup,main"


async def test_why_a_pod_is_not_placed_is_reported_before_it_is_bound(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "web"))
    super_space = synced.super_namespace(space)
    why = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/3 nodes are available: no room for {super_space}/web.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await synced.report(space, "web", conditions=[why])
    shown = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"].get("conditions"),
    )
    condition = shown["status"]["conditions"][0]
    assert (condition["reason"], condition["status"]) == ("Unschedulable", "False")
    assert condition["message"] == f"0/3 nodes are available: no room for {space}/web."
    assert not shown["spec"].get("nodeName")


async def test_an_eviction_in_the_tenant_follows_and_keeps_its_reason(synced: SyncerWorld):
    space = await running(synced, pod("web"))
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": space},
        "deleteOptions": {"gracePeriodSeconds": 12},
    }
    await synced.tenant_client.create(
        PODS, eviction, namespace=space, name="web", subresource="eviction"
    )
    dying = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 12
    await synced.report(space, "web", phase="Failed", reason="Terminated")
    shown = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"].get("reason") == "Terminated",
    )
    assert "DisruptionTarget" in {item["type"] for item in shown["status"]["conditions"]}
    await synced.remove_pod(space, "web")


ADDITIONS = """Object{
    metadata: Object.metadata{
        labels: {"injected": "yes"},
        annotations: {"injected": "yes"},
    },
    spec: Object.spec{
        containers: object.spec.containers.map(c, Object.spec.containers{
            name: c.name,
            env: [Object.spec.containers.env{name: "INJECTED", value: "1"}],
        }) + [Object.spec.containers{name: "sidecar", image: "registry.example/sidecar:1"}],
    },
}"""
SELECTOR = """[JSONPatch{
    op: "add",
    path: "/spec/nodeSelector",
    value: {"pool": "shared"},
}]"""
TOLERATION = """[JSONPatch{
    op: "add",
    path: "/spec/tolerations",
    value: (has(object.spec.tolerations) ? object.spec.tolerations : []) + [
        Object.spec.tolerations{key: "pool", operator: "Exists", effect: "NoSchedule"}
    ],
}]"""
MARKS = """Object{metadata: Object.metadata{
    labels: {"injected": "yes"},
    annotations: {"injected": "yes"},
}}"""


@pytest.mark.timeout(600)
async def test_what_webhooks_add_is_lived_with_and_every_label_change_arrives(synced: SyncerWorld):
    """REL-37."""
    marked = pod("web")
    marked["metadata"]["labels"]["inject"] = "yes"
    async with (
        mutated(synced.super_client, "pods", "inject", ADDITIONS, SELECTOR, TOLERATION),
        mutated(synced.super_client, "pods", "inject", MARKS, operations=("UPDATE",)),
    ):
        space = await synced.namespace()
        for attempt in range(50):  # until the rules are in force
            name = f"try-{attempt}"
            tried = {**marked, "metadata": {**marked["metadata"], "name": name}}
            await synced.tenant_client.create(PODS, tried, namespace=space)
            made = await eventually(lambda name=name: synced.twin(PODS, space, name))
            if "injected" in made["metadata"]["labels"]:
                break
            await asyncio.sleep(0.2)
        node = await synced.super_node()
        await synced.tenant_client.create(PODS, marked, namespace=space)
        await eventually(lambda: synced.twin(PODS, space, "web"))
        await synced.schedule(space, "web", node)
        status = running_status("web")
        status["containerStatuses"].append({**status["containerStatuses"][0], "name": "sidecar"})
        await synced.report(space, "web", **status)
        shown = await eventually(
            lambda: synced.tenant_client.get(PODS, "web", namespace=space),
            until=lambda body: body["status"]["phase"] == "Running",
        )
        assert [c["name"] for c in shown["status"]["containerStatuses"]] == ["main"]
        await synced.idle()
        since = synced.mark("super")
        for number in range(LABEL_CHANGES):
            await synced.tenant_client.patch(
                PODS, "web", {"metadata": {"labels": {"round": str(number)}}}, namespace=space
            )
        last = str(LABEL_CHANGES - 1)
        twin = await eventually(
            lambda: synced.twin(PODS, space, "web"),
            until=lambda body: body["metadata"]["labels"].get("round") == last,
            within=120,
        )
        await synced.idle()
        writes = [w for w in synced.writes("super", since) if w.name == "web"]
        sent = [
            event["requestObject"]
            for event in synced.super_plane.audit_events(since)
            if event["user"]["username"] == SYNCER and event["objectRef"].get("name") == "web"
        ]
    assert writes
    assert sent
    assert "injected" not in str(sent)  # no one takes away what the webhook added
    assert twin["metadata"]["labels"]["injected"] == "yes"
    assert twin["spec"]["nodeSelector"] == {"pool": "shared"}
    assert {"sidecar", "main"} == {c["name"] for c in twin["spec"]["containers"]}
    assert any(item.get("key") == "pool" for item in twin["spec"]["tolerations"])
    assert [w for w in writes if w.code >= 300] == []
    assert len(writes) <= LABEL_CHANGES
    # And nothing goes on once it is in step.
    since = synced.mark("super")
    await asyncio.sleep(0.5)
    await synced.idle()
    assert [w for w in synced.writes("super", since) if w.name == "web"] == []


async def test_a_field_that_the_super_does_not_know_is_reported_and_the_pod_is_made(
    synced: SyncerWorld,
):
    marked = pod("web", hostAliases=[{"ip": "192.0.2.1", "hostnames": ["h"]}])
    marked["metadata"]["labels"]["skew"] = "yes"
    forgets = '[JSONPatch{op: "remove", path: "/spec/hostAliases"}]'
    async with mutated(synced.super_client, "pods", "skew", forgets):
        space = await synced.namespace()
        for attempt in range(50):
            name = f"try-{attempt}"
            tried = {**marked, "metadata": {**marked["metadata"], "name": name}}
            await synced.tenant_client.create(PODS, tried, namespace=space)
            made = await eventually(lambda name=name: synced.twin(PODS, space, name))
            if "hostAliases" not in made["spec"]:
                break
            await asyncio.sleep(0.2)
        else:
            pytest.fail("the rule never came into force")
    event = await told(synced, space, "rule version-skew")
    assert (event["reason"], event["involvedObject"]["name"]) == ("SyncAdjusted", name)
    assert "spec.hostAliases" in event["message"]
    await asyncio.sleep(0.3)
    await synced.idle()
    events = (await synced.tenant_client.list(EVENTS, namespace=space))["items"]
    assert len([item for item in events if item["involvedObject"]["name"] == name]) == 1


async def test_a_difference_that_comes_back_five_times_is_parked_and_reported(synced: SyncerWorld):
    """REL-38."""
    space = await synced.namespace()
    service = {
        "metadata": {"name": "s"},
        "spec": {"selector": {"a": "1"}, "ports": [{"port": 80}]},
    }
    await synced.tenant_client.create(SERVICES, service, namespace=space)
    await eventually(lambda: synced.twin(SERVICES, space, "s"))
    since, super_space = synced.mark("super"), synced.super_namespace(space)
    drift = {"spec": {"selector": {"a": "theirs"}}}

    async def repaired() -> bool:
        twin = await synced.twin(SERVICES, space, "s")
        return bool(twin["spec"]["selector"] == {"a": "1"})

    for _ in range(5):
        await synced.super_client.patch(SERVICES, "s", drift, namespace=super_space)
        await eventually(repaired)
    await synced.super_client.patch(SERVICES, "s", drift, namespace=super_space)
    event = await told(synced, space, "rule parked")
    assert event["reason"] == "SyncParked"
    assert "spec.selector.a" in event["message"]
    condition = await eventually(
        lambda: synced.condition(wellknown.SYNCED),
        until=lambda found: found is not None and "spec.selector.a" in found["message"],
    )
    assert condition["status"] == "True"
    await asyncio.sleep(0.5)
    await synced.idle()
    assert not await repaired()
    writes = [w for w in synced.writes("super", since) if w.name == "s"]
    assert len(writes) == 5
    # The tenant's own change is tried at once, and nothing is parked any longer.
    await synced.tenant_client.patch(
        SERVICES, "s", {"spec": {"selector": {"a": "2"}}}, namespace=space
    )
    await eventually(
        lambda: synced.twin(SERVICES, space, "s"),
        until=lambda twin: twin["spec"]["selector"] == {"a": "2"},
    )
