"""Edits of twins by other writers, refusals by a tenant, and Events of waiting pods."""

from __future__ import annotations

import asyncio

import pytest

from kubeio import Object
from kubeio.errors import NotFound
from syncer.safety import circuit_breaker
from syncer.tenants import connection as links
from tenancy import names, ownership, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from tests.integration.syncer.admission import denied
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_running_pods import told
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.eventually import eventually

REPAIRED = 2.0
"""Seconds within which drift of a watched kind is repaired."""
OBJECTS: dict[str, tuple[Resource, Object]] = {
    "ConfigMap": (CONFIG_MAPS, {"data": {"a": "1"}}),
    "Secret": (SECRETS, {"data": {"a": "MQ=="}}),
    "Service": (SERVICES, {"spec": {"selector": {"a": "1"}, "ports": [{"port": 80}]}}),
}


async def furnish(world: SyncerWorld) -> str:
    """Create one object of each kind with its copy, and a running pod that needs them."""
    space, node = await world.namespace(), await world.super_node()
    for resource, body in OBJECTS.values():
        await world.tenant_client.create(
            resource, {**body, "metadata": {"name": "x"}}, namespace=space
        )
    volumes = [
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x"}},
    ]
    await world.tenant_client.create(PODS, pod("x", volumes=volumes), namespace=space)
    await world.start_pod(space, "x", node)
    await eventually(lambda: world.twin(SERVICES, space, "x"))
    await world.idle()
    return space


@pytest.mark.parametrize("kind", [*OBJECTS, "Pod"])
async def test_an_object_that_lost_its_labels_is_found_and_labelled_again(
    synced: SyncerWorld, kind: str
):
    """Without them the watch says that it is gone, and its name is taken."""
    space = await furnish(synced)
    resource = PODS if kind == "Pod" else OBJECTS[kind][0]
    before = await synced.twin(resource, space, "x")
    taken = dict.fromkeys(ownership.build_owner_labels(synced.tenant, space))
    super_space = synced.super_namespace(space)
    await synced.super_client.patch(
        resource, "x", {"metadata": {"labels": taken}}, namespace=super_space
    )
    after = await eventually(
        lambda: synced.twin(resource, space, "x"),
        until=lambda body: wellknown.VC_UID in body["metadata"].get("labels", {}),
        within=REPAIRED,
    )
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await synced.idle()
    own = await synced.tenant_client.get(resource, "x", namespace=space)
    assert own.get("status", {}).get("phase") != "Failed"
    events = (await synced.tenant_client.list(EVENTS, namespace=space))["items"]
    assert "NameTaken" not in {event["reason"] for event in events}


async def test_drift_of_a_pod_is_repaired(synced: SyncerWorld):
    """REL-39: labels, the record of containers, and an image."""
    space = await furnish(synced)
    super_space = synced.super_namespace(space)
    drift = {
        "metadata": {
            "labels": {"app": "theirs"},
            "annotations": {wellknown.CONTAINERS: "main,side"},
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example/theirs:1"}]},
    }
    await synced.super_client.patch(PODS, "x", drift, kind="strategic", namespace=super_space)
    await eventually(
        lambda: synced.twin(PODS, space, "x"),
        until=lambda body: (
            body["metadata"]["labels"]["app"] == "x"
            and body["metadata"]["annotations"][wellknown.CONTAINERS] == "main"
            and body["spec"]["containers"][0]["image"] == "registry.example/app:1"
        ),
        within=REPAIRED,
    )


async def test_what_pods_run_with_is_put_back(synced: SyncerWorld):
    """Their account and their token, removed or changed while pods run."""
    space = await furnish(synced)
    super_space = synced.super_namespace(space)

    async def token() -> Object:
        found = (await synced.super_client.list(SECRETS, namespace=super_space))["items"]
        named = [item for item in found if item["metadata"]["name"].startswith("vc-token-")]
        assert len(named) == 1
        return dict(named[0])

    first = await token()
    since = synced.mark("super")
    name = first["metadata"]["name"]
    await synced.super_client.delete(SECRETS, name, namespace=super_space)
    again = await eventually(token)
    assert again["metadata"]["name"] == name
    await synced.super_client.delete(
        SERVICE_ACCOUNTS, names.WORKLOAD_ACCOUNT, namespace=super_space
    )
    await eventually(
        lambda: synced.super_client.get(
            SERVICE_ACCOUNTS, names.WORKLOAD_ACCOUNT, namespace=super_space
        )
    )
    powers = {"automountServiceAccountToken": True, "imagePullSecrets": [{"name": "x"}]}
    await synced.super_client.patch(
        SERVICE_ACCOUNTS, names.WORKLOAD_ACCOUNT, powers, namespace=super_space
    )
    await eventually(
        lambda: synced.super_client.get(
            SERVICE_ACCOUNTS, names.WORKLOAD_ACCOUNT, namespace=super_space
        ),
        until=lambda account: (
            account["automountServiceAccountToken"] is False and not account.get("imagePullSecrets")
        ),
    )
    await synced.idle()
    writes = [
        w for w in synced.writes("super", since) if w.namespace == super_space and w.code < 400
    ]
    assert [(w.verb, w.resource) for w in writes] == [
        ("create", "secrets"),
        ("create", "serviceaccounts"),
        ("patch", "serviceaccounts"),
    ]


async def test_a_token_that_was_removed_while_no_syncer_ran_is_put_back(world: SyncerWorld):
    async with world.syncer():
        space = await furnish(world)
    super_space = world.super_namespace(space)
    found = (await world.super_client.list(SECRETS, namespace=super_space))["items"]
    named = [item["metadata"]["name"] for item in found]
    (name,) = (each for each in named if each.startswith("vc-token-"))
    await world.super_client.delete(SECRETS, name, namespace=super_space)
    async with world.syncer():
        await eventually(lambda: world.super_client.get(SECRETS, name, namespace=super_space))


async def test_orphans_of_every_kind_are_collected_after_a_downtime(world: SyncerWorld):
    """REL-04: those of one namespace, and none of the other."""
    async with world.syncer():
        space = await furnish(world)
        kept = await furnish(world)
    for resource, _ in OBJECTS.values():
        await world.tenant_client.delete(resource, "x", namespace=space)
    await world.tenant_client.delete(PODS, "x", namespace=space, grace_seconds=0)
    since = world.mark("super")
    async with world.syncer():
        await world.remove_pod(space, "x")
        for resource, _ in OBJECTS.values():
            await gone(lambda r=resource: world.twin(r, space, "x"))
        await world.idle()
        for resource in (*(resource for resource, _ in OBJECTS.values()), PODS):
            assert await world.has_twin(resource, kept, "x")
    deletes = [write for write in world.writes("super", since) if write.verb == "delete"]
    assert {write.namespace for write in deletes} == {world.super_namespace(space)}


@pytest.mark.parametrize("size", [1, 2_000], ids=["small", "large"])
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_what_was_made_immutable_in_the_super_cluster_follows_its_tenant_all_the_same(
    synced: SyncerWorld, kind: str, size: int
):
    """No change can be put in its place, so it is created again, and only when it has to change."""
    space, (resource, _) = await furnish(synced), OBJECTS[kind]
    super_space, value = synced.super_namespace(space), "MTIz" * size
    await synced.tenant_client.patch(resource, "x", {"data": {"b": value}}, namespace=space)
    first = await eventually(
        lambda: synced.twin(resource, space, "x"), until=lambda body: "b" in body["data"]
    )
    since = synced.mark("super")
    drift = {"immutable": True, "metadata": {"annotations": {wellknown.CLUSTER: "theirs"}}}
    await synced.super_client.patch(resource, "x", drift, namespace=super_space)
    kept = await eventually(
        lambda: synced.twin(resource, space, "x"),
        until=lambda body: body["metadata"]["annotations"][wellknown.CLUSTER] != "theirs",
        within=REPAIRED,
    )
    assert kept["metadata"]["uid"] == first["metadata"]["uid"]
    await synced.tenant_client.patch(resource, "x", {"data": {"c": "NDU2"}}, namespace=space)
    made = await eventually(
        lambda: synced.twin(resource, space, "x"), until=lambda body: "c" in body["data"]
    )
    assert made["data"] == {**first["data"], "c": "NDU2"}
    assert "immutable" not in made
    await synced.idle()
    plural = resource.plural
    written = [(w.verb, w.code) for w in synced.writes("super", since) if w.resource == plural]
    assert written == [("update", 200), ("delete", 200), ("create", 201)]


async def test_a_secret_named_like_a_word_of_every_pod_goes_with_its_last_pod(synced: SyncerWorld):
    """`v1` stands in each body. Only a name in the place of a name holds what it names."""
    space = await synced.namespace()
    await synced.tenant_client.create(SECRETS, {"metadata": {"name": "v1"}}, namespace=space)
    volumes = [{"name": "v", "secret": {"secretName": "v1"}}]
    await synced.tenant_client.create(PODS, pod("user", volumes=volumes), namespace=space)
    await synced.tenant_client.create(PODS, pod("stays"), namespace=space)
    await eventually(lambda: synced.twin(SECRETS, space, "v1"))
    await eventually(lambda: synced.twin(PODS, space, "stays"))
    await synced.tenant_client.delete(PODS, "user", namespace=space, grace_seconds=0)
    await gone(lambda: synced.twin(SECRETS, space, "v1"))


# --- a tenant that refuses writes -----------------------------------------------------------------


async def test_a_tenant_that_refuses_writes_is_reported_and_served_at_once_when_it_stops(
    synced: SyncerWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(circuit_breaker, "REFUSING_REPORT_SECONDS", 0.5)
    monkeypatch.setattr(links, "_HEALTH_CHECK_SECONDS", 0.2)
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    await asyncio.sleep(links._HEALTH_CHECK_SECONDS)

    async def is_denied(number: int) -> bool:
        await synced.report(space, "web", message=f"round {number}")
        await asyncio.sleep(0.3)
        shown = await synced.tenant_client.get(PODS, "web", namespace=space)
        return bool(shown["status"].get("message") != f"round {number}")

    async with denied(synced.tenant_client, SYNCER):
        for number in range(60):
            if await is_denied(number):
                break
        condition = await eventually(
            lambda: synced.condition(wellknown.SYNCED),
            until=lambda found: (
                found is not None
                and found["status"] == "False"
                and "pods/status" in found["message"]  # others may be refused before
            ),
            within=30,
        )
        assert condition["reason"] == "TenantRefusesWrites"
        assert "nobody may write" in condition["message"]
        key = synced.session.build_key("Pod", space, "web")
        await eventually(lambda: synced.session.queue.count_requeues(key) >= 4, within=60)
    await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"].get("message") == f"round {number}",
        within=15,
    )
    await eventually(
        lambda: synced.condition(wellknown.SYNCED),
        until=lambda found: found is not None and found["status"] == "True",
        within=15,
    )
    assert synced.session.queue.count_requeues(key) == 0


# --- what pods are told that wait -----------------------------------------------------------------


async def test_a_pod_that_names_a_withheld_secret_is_reported(synced: SyncerWorld):
    space = await synced.namespace()
    await eventually(lambda: synced.session.stores["ServiceAccount"].get(space, "default"))
    secret = {
        "metadata": {
            "name": "legacy",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    await synced.tenant_client.create(SECRETS, secret, namespace=space)
    volumes = [{"name": "v", "secret": {"secretName": "legacy"}}]
    await synced.tenant_client.create(PODS, pod("web", volumes=volumes), namespace=space)
    event = await told(synced, space, "rule secret-type")
    assert event["involvedObject"]["name"] == "web"
    assert "kubernetes.io/service-account-token" in event["message"]
    assert not await synced.has_twin(SECRETS, space, "legacy")
    await synced.tenant_client.create(
        PODS,
        pod("fine", volumes=[{"name": "v", "secret": {"secretName": "absent", "optional": True}}]),
        namespace=space,
    )
    await eventually(lambda: synced.twin(PODS, space, "fine"))
    events = (await synced.tenant_client.list(EVENTS, namespace=space))["items"]
    assert [event["involvedObject"]["name"] for event in events] == ["web"]


async def test_a_pod_in_a_namespace_that_waits_for_its_predecessor_is_reported(world: SyncerWorld):
    async with world.syncer():
        space = await world.namespace()
        super_space = world.super_namespace(space)
        held = {"metadata": {"name": "held", "finalizers": ["test/hold"]}}
        await world.super_client.create(CONFIG_MAPS, held, namespace=super_space)
        await world.tenant_client.delete(NAMESPACES, space)
        await gone(lambda: world.tenant_client.get(NAMESPACES, space))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        await world.tenant_client.create(NAMESPACES, body)
        await eventually(lambda: world.tenant_client.create(PODS, pod("web"), namespace=space))
        found = await eventually(
            lambda: world.tenant_client.list(EVENTS, namespace=space),
            until=lambda events: events["items"],
        )
        told = [(e["reason"], e["type"], e["involvedObject"]["name"]) for e in found["items"]]
        assert told == [("WaitingForDeletion", "Normal", "web")]
        free = {"metadata": {"finalizers": None}}
        await world.super_client.patch(CONFIG_MAPS, "held", free, namespace=super_space)
        await eventually(lambda: world.twin(PODS, space, "web"), within=20)


async def test_a_pod_that_names_a_node_follows_as_soon_as_the_tenant_has_it(synced: SyncerWorld):
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("early", nodeName=node), namespace=space)
    await told(synced, space, "rule node-name")
    await asyncio.sleep(0.3)
    await synced.idle()
    with pytest.raises(NotFound):  # naming a node does not show it
        await synced.tenant_client.get(NODES, node)
    assert not await synced.has_twin(PODS, space, "early")
    await synced.tenant_client.create(PODS, pod("first"), namespace=space)
    await synced.start_pod(space, "first", node)
    twin = await eventually(lambda: synced.twin(PODS, space, "early"))
    assert node in str(twin["spec"]["affinity"]["nodeAffinity"])


async def test_a_tenants_own_node_condition_costs_no_write(synced: SyncerWorld):
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.idle()
    since = synced.mark("tenant")
    condition = {
        "type": "example.com/Checked",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await synced.tenant_client.patch(
        NODES,
        node,
        {"status": {"conditions": [condition], "capacity": {"example.com/fan": "2"}}},
        kind="strategic",
        subresource="status",
    )
    await asyncio.sleep(0.3)
    await synced.idle()
    assert [w for w in synced.writes("tenant", since) if w.resource.startswith("nodes")] == []
    # A removal in the super cluster is synced back, and the tenant's own stays.
    live = await synced.super_client.get(NODES, node)
    live["status"]["conditions"].append({**condition, "type": "example.com/Theirs"})
    await synced.super_client.replace(NODES, live, subresource="status")

    def types(body: Object) -> set[str]:
        return {item["type"] for item in body["status"]["conditions"]}

    await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda body: "example.com/Theirs" in types(body),
    )
    live = await synced.super_client.get(NODES, node)
    live["status"]["conditions"].pop()
    await synced.super_client.replace(NODES, live, subresource="status")
    shown = await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda body: "example.com/Theirs" not in types(body),
    )
    assert "example.com/Checked" in types(shown)
    assert shown["status"]["capacity"]["example.com/fan"] == "2"


async def test_a_pod_evicted_while_an_update_is_in_flight_is_not_made_again(synced: SyncerWorld):
    """Its twin goes at once, before its kubelet said anything: the UID must not come back."""
    space, node = await synced.namespace(), await synced.super_node()
    owned = pod("web")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    await synced.tenant_client.create(PODS, owned, namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "web"))
    await synced.schedule(space, "web", node)
    await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["spec"].get("nodeName"),
    )
    await synced.idle()
    since = synced.mark("super")
    super_space = synced.super_namespace(space)
    await asyncio.gather(
        synced.tenant_client.patch(
            PODS, "web", {"metadata": {"labels": {"a": "b"}}}, namespace=space
        ),
        synced.super_client.delete(PODS, "web", namespace=super_space, grace_seconds=0),
    )
    await gone(lambda: synced.tenant_client.get(PODS, "web", namespace=space))
    await synced.idle()
    made = [w for w in synced.writes("super", since) if (w.verb, w.name) == ("create", "web")]
    assert made == []
    with pytest.raises(NotFound):
        await synced.twin(PODS, space, "web")
