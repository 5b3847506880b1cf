"""A pod's life on both sides, with the tests as scheduler and kubelet."""

from __future__ import annotations

import asyncio

import pytest

from kubeio.errors import NotFound
from tenancy import names, wellknown
from tenancy.resources import CONFIG_MAPS, EVENTS, NODES, PODS, SECRETS
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually


async def gone(look, within: float = 30.0) -> None:
    """Wait until a read answers 404."""

    async def is_gone() -> bool:
        try:
            await look()
        except NotFound:
            return True
        return False

    await eventually(is_gone, within=within)


async def test_a_pod_goes_down_runs_and_goes(synced: SyncerWorld):
    """REL-26: in a tenant that has no name server at all."""
    space = await synced.namespace()
    node = await synced.super_node()
    made = await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "web"))
    annotations = twin["metadata"]["annotations"]
    assert annotations[wellknown.UID] == made["metadata"]["uid"]
    assert annotations[wellknown.VC_UID] == synced.tenant.uid
    assert annotations[wellknown.CONTAINERS] == "main"
    assert twin["spec"]["serviceAccountName"] == names.WORKLOAD_ACCOUNT
    assert twin["metadata"]["labels"]["app"] == "web"

    await synced.start_pod(space, "web", node)
    shown = await synced.tenant_client.get(PODS, "web", namespace=space)
    assert shown["spec"]["nodeName"] == node
    assert shown["status"]["podIP"] == "10.244.0.9"
    virtual = await synced.tenant_client.get(NODES, node)
    assert virtual["metadata"]["labels"][wellknown.VIRTUAL_NODE] == "true"
    assert virtual["metadata"]["labels"]["disk"] == "fast"
    assert "node-role.kubernetes.io/worker" not in virtual["metadata"]["labels"]
    assert virtual["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == wellknown.AGENT_PORT

    await synced.tenant_client.delete(PODS, "web", namespace=space, grace_seconds=7)
    dying = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 7
    assert await synced.tenant_client.get(PODS, "web", namespace=space)
    await synced.remove_pod(space, "web")
    await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))


async def test_the_writes_of_one_pods_life(synced: SyncerWorld):
    """No write more than needed: create, bind, one per status, two deletes."""
    space = await synced.namespace()
    node = await synced.super_node()
    await synced.tenant_client.create(PODS, pod("first"), namespace=space)
    await synced.start_pod(space, "first", node)  # the node is there from now on
    await synced.idle()
    super_mark, tenant_mark = synced.mark("super"), synced.mark("tenant")

    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.idle()
    await synced.tenant_client.delete(PODS, "web", namespace=space)
    await synced.remove_pod(space, "web")
    await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))
    await synced.idle()

    def about(writes):
        return [f"{write.verb} {write.resource}" for write in writes if write.name == "web"]

    assert about(synced.writes("super", super_mark)) == ["create pods", "delete pods"]
    tenant_writes = about(synced.writes("tenant", tenant_mark))
    assert tenant_writes[0] == "create pods/binding"
    assert tenant_writes[-1] == "delete pods"
    # Binding and status may be seen together or one after the other. The marked twin is told too.
    assert set(tenant_writes[1:-1]) == {"patch pods/status"}
    assert len(tenant_writes) <= 5


async def test_a_pod_with_token_configuration_and_root_ca(synced: SyncerWorld):
    space = await synced.namespace()
    await eventually(
        lambda: synced.tenant_client.get(CONFIG_MAPS, "kube-root-ca.crt", namespace=space)
    )
    await synced.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"a": "1"}}, namespace=space
    )
    await synced.tenant_client.create(
        SECRETS, {"metadata": {"name": "keys"}, "stringData": {"k": "v"}}, namespace=space
    )
    await eventually(
        lambda: synced.tenant_client.create(
            PODS,
            pod(
                "web",
                volumes=[
                    {"name": "settings", "configMap": {"name": "settings"}},
                    {"name": "keys", "secret": {"secretName": "keys"}},
                ],
            ),
            namespace=space,
        )
    )
    twin = await eventually(lambda: synced.twin(PODS, space, "web"))
    settings = await synced.twin(CONFIG_MAPS, space, "settings")
    assert settings["data"] == {"a": "1"}
    assert (await synced.twin(SECRETS, space, "keys"))["data"] == {"k": "dg=="}
    root = await synced.twin(CONFIG_MAPS, space, names.SUPER_ROOT_CA)
    assert "ca.crt" in root["data"]
    projected = next(v["projected"] for v in twin["spec"]["volumes"] if "projected" in v)
    secret = next(s["secret"]["name"] for s in projected["sources"] if "secret" in s)
    assert secret.startswith(names.TOKEN_SECRET_PREFIX)
    token = await synced.twin(SECRETS, space, secret)
    assert token["metadata"]["annotations"][wellknown.ACCOUNT] == "default"
    assert "serviceAccountToken" not in str(twin["spec"])

    await synced.tenant_client.delete(PODS, "web", namespace=space)
    for resource, name in (
        (CONFIG_MAPS, "settings"),
        (SECRETS, "keys"),
        (SECRETS, secret),
        (CONFIG_MAPS, names.SUPER_ROOT_CA),
    ):
        await gone(lambda r=resource, n=name: synced.twin(r, space, n))


async def test_an_eviction_in_the_super_cluster_takes_the_tenant_pod_with_its_reason(
    synced: SyncerWorld,
):
    """REL-40: the words of the eviction go up."""
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    status = running_status("web")
    await synced.report(space, "web", conditions=[*status["conditions"], condition])
    await synced.super_client.delete(
        PODS, "web", namespace=synced.super_namespace(space), grace_seconds=20
    )
    dying = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 20
    kinds = {item["type"] for item in dying["status"]["conditions"]}
    assert "DisruptionTarget" in kinds
    events = (await synced.tenant_client.list(EVENTS, namespace=space))["items"]
    said = [item["message"] for item in events if item["reason"] == "SuperPodDeleted"]
    assert len(said) == 1
    assert "It has no controller that replaces it" in said[0]
    await synced.remove_pod(space, "web")
    await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))


async def test_a_bound_pod_whose_twin_vanished_has_failed(world: SyncerWorld):
    """The syncer was away when it went. A bare pod stays, as a kubelet would leave it."""
    async with world.syncer():
        space, node = await world.namespace(), await world.super_node()
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
        await world.start_pod(space, "web", node)
    await world.super_client.delete(
        PODS, "web", namespace=world.super_namespace(space), grace_seconds=0
    )
    async with world.syncer():
        lost = await eventually(
            lambda: world.tenant_client.get(PODS, "web", namespace=space),
            until=lambda body: body["status"]["phase"] == "Failed",
        )
        assert lost["status"]["reason"] == "SuperPodLost"
        await world.idle()
        assert await world.tenant_client.get(PODS, "web", namespace=space)
        assert not await world.has_twin(PODS, space, "web")


async def test_a_lost_pod_with_a_controller_goes(world: SyncerWorld):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
    owned = pod("web")
    owned["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    async with world.syncer():
        space, node = await world.namespace(), await world.super_node()
        await world.tenant_client.create(PODS, owned, namespace=space)
        await world.start_pod(space, "web", node)
        twin = await world.twin(PODS, space, "web")
        controller = twin["metadata"]["ownerReferences"][0]
        assert (controller["kind"], controller["controller"]) == ("Namespace", True)
        spread = twin["spec"]["topologySpreadConstraints"]
        assert [item["topologyKey"] for item in spread] == [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        ]
    await world.super_client.delete(
        PODS, "web", namespace=world.super_namespace(space), grace_seconds=0
    )
    async with world.syncer():
        await gone(lambda: world.tenant_client.get(PODS, "web", namespace=space))


@pytest.mark.parametrize("has_controller", [False, True])
async def test_a_twin_that_is_forced_away_takes_the_tenant_pod_with_a_word(
    synced: SyncerWorld, has_controller: bool
):
    """Its deletion and its end are all but one event. Whichever is seen, the outcome is one."""
    space, node = await synced.namespace(), await synced.super_node()
    body = pod("web")
    if has_controller:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
        body["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    await synced.tenant_client.create(PODS, body, namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.idle()
    since = synced.mark("super")
    await synced.super_client.delete(
        PODS, "web", namespace=synced.super_namespace(space), grace_seconds=0
    )
    await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))
    await synced.idle()
    assert [w for w in synced.writes("super", since) if w.name == "web"] == []
    events = (await synced.tenant_client.list(EVENTS, namespace=space))["items"]
    said = [item["message"] for item in events if item["reason"] == "SuperPodDeleted"]
    assert len(said) == 1
    assert ("Its controller" in said[0]) == has_controller


async def test_a_pod_that_its_node_evicted_stays_as_it_ended(synced: SyncerWorld):
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    why = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    text = "The node was low on resource: memory."
    await synced.report(
        space, "web", phase="Failed", reason="Evicted", message=text, conditions=[why]
    )
    ended = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Failed",
    )
    assert (ended["status"]["reason"], ended["status"]["message"]) == ("Evicted", text)
    assert why["reason"] in {item.get("reason") for item in ended["status"]["conditions"]}
    await synced.idle()
    assert await synced.has_twin(PODS, space, "web")
    since = synced.mark("super")
    await synced.super_client.delete(
        PODS, "web", namespace=synced.super_namespace(space), grace_seconds=0
    )
    await synced.tenant_client.create(PODS, pod("later"), namespace=space)
    await synced.start_pod(space, "later", node)  # so the syncer has seen what came before it
    await synced.idle()
    kept = await synced.tenant_client.get(PODS, "web", namespace=space)
    assert kept["status"] == ended["status"]
    assert "deletionTimestamp" not in kept["metadata"]
    assert [w for w in synced.writes("super", since) if w.name == "web"] == []


async def test_an_unbound_twin_that_vanishes_is_made_again(synced: SyncerWorld):
    space = await synced.namespace()
    made = await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    first = await eventually(lambda: synced.twin(PODS, space, "web"))
    await synced.super_client.delete(PODS, "web", namespace=synced.super_namespace(space))
    second = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: body["metadata"]["uid"] != first["metadata"]["uid"],
    )
    assert second["metadata"]["annotations"][wellknown.UID] == made["metadata"]["uid"]


async def test_a_finished_pod_stays(synced: SyncerWorld):
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("job", restartPolicy="Never"), namespace=space)
    await synced.start_pod(space, "job", node)
    await synced.report(space, "job", phase="Succeeded")
    await eventually(
        lambda: synced.tenant_client.get(PODS, "job", namespace=space),
        until=lambda body: body["status"]["phase"] == "Succeeded",
    )
    await synced.idle()
    assert await synced.has_twin(PODS, space, "job")


@pytest.mark.parametrize("restart", ["Always", "OnFailure", "Never"])
async def test_a_forged_end_is_put_right_as_far_as_the_api_takes_it(
    synced: SyncerWorld, restart: str
):
    """The state of a container that ended for good is the one thing that never comes back."""
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web", restartPolicy=restart), namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.idle()
    ended = running_status("web")["containerStatuses"][0]
    ended |= {"ready": False, "started": False}
    ended["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    since = synced.mark("tenant")
    await synced.tenant_client.patch(
        PODS,
        "web",
        {"status": {"phase": "Succeeded", "containerStatuses": [ended], "conditions": []}},
        namespace=space,
        subresource="status",
    )
    true = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"]["phase"] == "Running",
    )
    assert {item["type"]: item["status"] for item in true["status"]["conditions"]}[
        "Ready"
    ] == "True"
    state = true["status"]["containerStatuses"][0]["state"]
    assert set(state) == {"running" if restart == "Always" else "terminated"}
    await synced.idle()
    await asyncio.sleep(0.3)
    assert len([write for write in synced.writes("tenant", since) if write.name == "web"]) <= 4
    await synced.super_client.delete(
        PODS, "web", namespace=synced.super_namespace(space), grace_seconds=20
    )
    await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )


async def test_labels_and_images_follow_and_strange_keys_do_not(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "web"))
    change = {
        "metadata": {
            "labels": {
                "app": "other",
                "tier": "front",
                "sidecar.istio.io/inject": "true",
                "app.kubernetes.io/name": "web",
            },
            "annotations": {"note": "x", f"{wellknown.DOMAIN}/vcuid": "forged"},
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]},
    }
    await synced.tenant_client.patch(PODS, "web", change, kind="strategic", namespace=space)
    twin = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: body["spec"]["containers"][0]["image"].endswith(":2"),
    )
    labels, annotations = twin["metadata"]["labels"], twin["metadata"]["annotations"]
    assert labels["tier"] == "front"
    assert labels["app"] == "other"
    assert labels["app.kubernetes.io/name"] == "web"
    assert "sidecar.istio.io/inject" not in labels
    assert annotations["note"] == "x"
    assert annotations[wellknown.VC_UID] == synced.tenant.uid
    await synced.tenant_client.patch(
        PODS, "web", {"metadata": {"labels": {"tier": None}}}, namespace=space
    )
    await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: "tier" not in body["metadata"]["labels"],
    )


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"hostNetwork": True}, "host-namespace"),
        ({"hostPID": True}, "host-namespace"),
        (
            {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
            "volume-source",
        ),
        ({"priorityClassName": "system-node-critical"}, "priority-class"),
        ({"nodeSelector": {wellknown.VIRTUAL_NODE: "true"}}, "node-label"),
        (
            {
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/app:1",
                        "securityContext": {"privileged": True},
                    }
                ]
            },
            "privileged",
        ),
    ],
)
async def test_what_is_not_offered_is_refused_with_an_event(synced: SyncerWorld, spec, rule):
    space = await synced.namespace()
    super_mark = synced.mark("super")
    await synced.tenant_client.create(PODS, pod("bad", **spec), namespace=space)
    event = await eventually(
        lambda: synced.tenant_client.list(EVENTS, namespace=space),
        until=lambda found: any(rule in item["message"] for item in found["items"]),
    )
    told = next(item for item in event["items"] if rule in item["message"])
    assert told["reason"] == "SyncRejected"
    assert synced.tenant.root not in told["message"]
    await asyncio.sleep(0.3)
    assert [write for write in synced.writes("super", super_mark) if write.name == "bad"] == []
    assert len((await synced.tenant_client.list(EVENTS, namespace=space))["items"]) == 1


async def test_a_foreign_pod_of_the_same_name_is_never_touched(synced: SyncerWorld):
    space = await synced.namespace()
    super_space = synced.super_namespace(space)
    foreign = pod("web")
    made = await synced.super_client.create(PODS, foreign, namespace=super_space)
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(
        lambda: synced.tenant_client.list(EVENTS, namespace=space),
        until=lambda found: any(item["reason"] == "NameTaken" for item in found["items"]),
    )
    await synced.tenant_client.delete(PODS, "web", namespace=space)
    await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))
    await synced.idle()
    still = await synced.super_client.get(PODS, "web", namespace=super_space)
    assert still["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_name_used_again_at_once_waits_for_the_old_twin(world: SyncerWorld):
    """REL-08, REL-09: the syncer forces no delete by itself.

    The tenant deleted and made it again while no one looked.
    """
    async with world.syncer():
        space, node = await world.namespace(), await world.super_node()
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
        await world.start_pod(space, "web", node)
        old = await world.twin(PODS, space, "web")
    await world.tenant_client.delete(PODS, "web", namespace=space, grace_seconds=0)
    new = await world.tenant_client.create(PODS, pod("web"), namespace=space)
    async with world.syncer():
        dying = await eventually(
            lambda: world.twin(PODS, space, "web"),
            until=lambda body: "deletionTimestamp" in body["metadata"],
        )
        assert dying["metadata"]["uid"] == old["metadata"]["uid"]
        assert dying["metadata"]["deletionGracePeriodSeconds"] == 30
        await world.remove_pod(space, "web")
        twin = await eventually(
            lambda: world.twin(PODS, space, "web"),
            until=lambda body: body["metadata"]["uid"] != old["metadata"]["uid"],
        )
        assert twin["metadata"]["annotations"][wellknown.UID] == new["metadata"]["uid"]


async def test_a_forced_delete_is_carried_down_as_such(synced: SyncerWorld):
    """REL-42: no grace in the tenant, none in the super cluster."""
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.tenant_client.delete(PODS, "web", namespace=space, grace_seconds=0)
    new = await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: body["metadata"]["annotations"][wellknown.UID] == new["metadata"]["uid"],
        within=30,
    )
