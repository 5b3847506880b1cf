"""Slices, Ingresses, network policies and disruption budgets: what is special about each."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import Object
from syncer.rules.network.endpoint_slices import (
    MANAGED_BY,
    SELECTOR_CONTROLLER,
    SERVICE_NAME,
)
from tenancy import wellknown
from tenancy.resources import (
    ENDPOINT_SLICES,
    EVENTS,
    INGRESS_CLASSES,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
)
from tests.integration.syncer.objects import pod
from tests.integration.syncer.samples import rule
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_service_types import set_policy
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough


async def told(world: SyncerWorld, space: str) -> Object:
    """Wait for the one Event of the syncer in a namespace."""
    (event,) = await eventually(lambda: world.events(space))
    return event


# --- EndpointSlices -------------------------------------------------------------------------------


def slice_of(address: str, name: str = "away") -> Object:
    """Return a slice of a Service without selector."""
    return {
        "metadata": {"name": name, "labels": {SERVICE_NAME: "away"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 80}],
    }


async def test_an_address_of_the_super_cluster_takes_the_slice_away(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(ENDPOINT_SLICES, slice_of("198.51.100.7"), namespace=space)
    twin = await eventually(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
    assert twin["metadata"]["labels"][MANAGED_BY] == "vc-syncer.tenancy.x-k8s.io"
    forbidden = str(synced.session.super_cluster.cidr_tracker.get_current().services[0][1])
    body = {"endpoints": [{"addresses": [forbidden]}]}
    await synced.tenant_client.patch(ENDPOINT_SLICES, "away", body, namespace=space)
    await gone(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
    event = await told(synced, space)
    assert event["reason"] == "SyncRejected"
    assert "endpoints[0].addresses[0]" in event["message"]
    body = {"endpoints": [{"addresses": ["198.51.100.8"]}]}
    await synced.tenant_client.patch(ENDPOINT_SLICES, "away", body, namespace=space)
    await eventually(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))


async def test_a_node_that_joins_takes_its_address_out_of_slices(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(ENDPOINT_SLICES, slice_of("192.0.2.77"), namespace=space)
    await eventually(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
    name = fresh_name("node")
    addresses = [{"type": "InternalIP", "address": "192.0.2.77"}]
    await synced.super_client.create(
        NODES, {"metadata": {"name": name}, "status": {"addresses": addresses}}
    )
    await gone(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
    await synced.super_client.delete(NODES, name)
    await eventually(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))


async def test_slices_that_a_controller_computes_never_go_down(synced: SyncerWorld):
    space = await synced.namespace()
    computed = slice_of("198.51.100.7", "computed")
    computed["metadata"]["labels"][MANAGED_BY] = SELECTOR_CONTROLLER
    await synced.tenant_client.create(ENDPOINT_SLICES, computed, namespace=space)
    await synced.tenant_client.create(ENDPOINT_SLICES, slice_of("198.51.100.7"), namespace=space)
    await eventually(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
    assert not await synced.has_twin(ENDPOINT_SLICES, space, "computed")
    assert not await synced.has_twin(ENDPOINT_SLICES, "default", "kubernetes")


async def test_a_slice_that_was_handed_to_a_controller_unseen_goes(world: SyncerWorld):
    async with world.syncer():
        space = await world.namespace()
        await world.tenant_client.create(ENDPOINT_SLICES, slice_of("198.51.100.7"), namespace=space)
        await eventually(lambda: world.twin(ENDPOINT_SLICES, space, "away"))
    body = {"metadata": {"labels": {MANAGED_BY: SELECTOR_CONTROLLER}}}
    await world.tenant_client.patch(ENDPOINT_SLICES, "away", body, namespace=space)
    async with world.syncer():
        await gone(lambda: world.twin(ENDPOINT_SLICES, space, "away"))


# --- Ingresses ------------------------------------------------------------------------------------


def ingress(**spec: Any) -> Object:
    """Return an Ingress."""
    return {"metadata": {"name": "web"}, "spec": {"rules": [rule("a.example")], **spec}}


async def test_the_secrets_that_an_ingress_names_go_with_it(synced: SyncerWorld):
    space = await synced.namespace()
    data = {"tls.crt": "Yw==", "tls.key": "aw=="}
    secret = {"metadata": {"name": "cert"}, "type": "kubernetes.io/tls", "data": data}
    await synced.tenant_client.create(SECRETS, secret, namespace=space)
    await synced.idle()
    assert not await synced.has_twin(SECRETS, space, "cert")
    await synced.tenant_client.create(
        INGRESSES, ingress(tls=[{"secretName": "cert"}]), namespace=space
    )
    twin = await eventually(lambda: synced.twin(SECRETS, space, "cert"))
    assert twin["type"] == "kubernetes.io/tls"
    await synced.tenant_client.patch(INGRESSES, "web", {"spec": {"tls": None}}, namespace=space)
    await gone(lambda: synced.twin(SECRETS, space, "cert"))


async def test_a_host_that_another_owner_has_is_refused_until_it_is_free(synced: SyncerWorld):
    space, host = await synced.namespace(), f"{fresh_name('shop')}.example"
    other = {"metadata": {"name": fresh_name("shop")}, "spec": {"rules": [rule(host)]}}
    await synced.super_client.create(INGRESSES, other, namespace="default")
    store = synced.session.connection.home_cluster.other_ingresses
    await eventually(lambda: store.get("default", other["metadata"]["name"]))
    await synced.tenant_client.create(INGRESSES, ingress(rules=[rule(host)]), namespace=space)
    event = await told(synced, space)
    assert "rule host-taken" in event["message"]
    assert not await synced.has_twin(INGRESSES, space, "web")
    await synced.super_client.delete(INGRESSES, other["metadata"]["name"], namespace="default")
    await eventually(lambda: synced.twin(INGRESSES, space, "web"))


async def test_addresses_and_events_of_an_ingress_go_up(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(INGRESSES, ingress(), namespace=space)
    twin = await eventually(lambda: synced.twin(INGRESSES, space, "web"))
    super_space = synced.super_namespace(space)
    status = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
    await synced.super_client.patch(
        INGRESSES, "web", {"status": status}, namespace=super_space, subresource="status"
    )
    await eventually(
        lambda: synced.tenant_client.get(INGRESSES, "web", namespace=space),
        until=lambda own: own["status"].get("loadBalancer") == status["loadBalancer"],
    )
    event = {
        "metadata": {"name": "web.1", "namespace": super_space},
        "involvedObject": {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "namespace": super_space,
            "name": "web",
            "uid": twin["metadata"]["uid"],
        },
        "reason": "Sync",
        "message": f"{super_space}/web was scheduled",
        "type": "Normal",
    }
    await synced.super_client.create(EVENTS, event, namespace=super_space)
    found = await eventually(lambda: synced.tenant_client.get(EVENTS, "web.1", namespace=space))
    assert found["message"] == f"{space}/web was scheduled"
    assert found["involvedObject"]["kind"] == "Ingress"


async def test_an_unknown_annotation_holds_an_ingress(synced: SyncerWorld):
    space = await synced.namespace()
    held = ingress()
    key = "nginx.ingress.kubernetes.io/server-snippet"
    held["metadata"]["annotations"] = {key: "return 200;"}
    await synced.tenant_client.create(INGRESSES, held, namespace=space)
    event = await told(synced, space)
    assert key in event["message"]
    assert not await synced.has_twin(INGRESSES, space, "web")
    body = {"metadata": {"annotations": {key: None}}}
    await synced.tenant_client.patch(INGRESSES, "web", body, namespace=space)
    await eventually(lambda: synced.twin(INGRESSES, space, "web"))


async def test_a_class_that_is_not_offered(synced: SyncerWorld):
    set_policy(synced, sync={"ingressClasses": {"names": ["public"]}})
    space = await synced.namespace()
    await synced.tenant_client.create(
        INGRESSES, ingress(ingressClassName="internal"), namespace=space
    )
    assert "ingress-class" in (await told(synced, space))["message"]
    assert not await synced.has_twin(INGRESSES, space, "web")
    name = fresh_name("public")
    set_policy(synced, sync={"ingressClasses": {"names": [name]}})
    body = {"spec": {"ingressClassName": name}}
    await synced.tenant_client.patch(INGRESSES, "web", body, namespace=space)
    await synced.idle()
    assert not await synced.has_twin(INGRESSES, space, "web")
    offered = {"metadata": {"name": name}, "spec": {"controller": "example.com/web"}}
    await synced.super_client.create(INGRESS_CLASSES, offered)  # it comes, and goes down with it
    await eventually(lambda: synced.twin(INGRESSES, space, "web"))
    await synced.super_client.delete(INGRESS_CLASSES, name)
    await gone(lambda: synced.tenant_client.get(INGRESS_CLASSES, name))
    await synced.idle()
    assert await synced.has_twin(INGRESSES, space, "web")  # perhaps it is only being created again


# --- network policies -----------------------------------------------------------------------------


def selected(twin: Object) -> list[str]:
    """Return the super namespaces that a policy's one selector lists."""
    peers = [peer for entry in twin["spec"]["ingress"] for peer in entry["from"]]
    return [
        name
        for peer in peers
        if wellknown.COMPONENT not in str(peer)
        for item in peer["namespaceSelector"]["matchExpressions"]
        for name in item.get("values", ())
    ]


async def test_a_policy_follows_the_namespaces_that_it_selects(synced: SyncerWorld):
    space, team = await synced.namespace(), fresh_name("team")
    chosen = {"namespaceSelector": {"matchLabels": {"team": team}}}
    body = {
        "metadata": {"name": "p"},
        "spec": {"podSelector": {}, "ingress": [{"from": [chosen]}]},
    }
    await synced.tenant_client.create(NETWORK_POLICIES, body, namespace=space)
    twin = await eventually(lambda: synced.twin(NETWORK_POLICIES, space, "p"))
    assert selected(twin) == []
    assert len(twin["spec"]["ingress"]) == 1  # the way of the API server alone, never an open rule
    await synced.idle()
    since = synced.mark("super")

    async def follows(*names: str) -> None:
        wanted = sorted(synced.super_namespace(name) for name in names)
        await eventually(
            lambda: synced.twin(NETWORK_POLICIES, space, "p"),
            until=lambda twin: selected(twin) == wanted,
        )

    other = fresh_name("n")
    labelled = {"metadata": {"name": other, "labels": {"team": team}}}
    await synced.tenant_client.create(NAMESPACES, labelled)
    await follows(other)
    mark = {"metadata": {"labels": {"team": team}}}
    await synced.tenant_client.patch(NAMESPACES, space, mark)
    await follows(other, space)
    await synced.tenant_client.patch(NAMESPACES, space, {"metadata": {"labels": {"team": None}}})
    await follows(other)
    await synced.tenant_client.delete(NAMESPACES, other)
    await follows()
    await synced.idle()
    super_space = synced.super_namespace(space)
    found = [
        w.verb
        for w in synced.writes("super", since)
        if (w.resource, w.namespace) == ("networkpolicies", super_space)
    ]
    assert found == ["update"] * 4


async def test_a_block_loses_a_node_that_joins(synced: SyncerWorld):
    space = await synced.namespace()
    block = {"ipBlock": {"cidr": "203.0.113.0/24"}}
    body = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "egress": [{"to": [block]}]}}
    await synced.tenant_client.create(NETWORK_POLICIES, body, namespace=space)
    twin = await eventually(lambda: synced.twin(NETWORK_POLICIES, space, "p"))
    assert twin["spec"]["egress"][0]["to"] == [block]
    name = fresh_name("node")
    addresses = [{"type": "InternalIP", "address": "203.0.113.9"}]
    await synced.super_client.create(
        NODES, {"metadata": {"name": name}, "status": {"addresses": addresses}}
    )
    cut = [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.9/32"]}}]
    await eventually(
        lambda: synced.twin(NETWORK_POLICIES, space, "p"),
        until=lambda twin: twin["spec"]["egress"][0]["to"] == cut,
    )
    await synced.super_client.delete(NODES, name)


async def test_a_label_that_is_not_synced_still_selects(synced: SyncerWorld):
    """The super cluster's own API server finds the pod by the twins' selectors."""
    space, key = await synced.namespace(), "gateway.networking.k8s.io/gateway-name"
    labels = {key: "edge"}
    own = pod("edge")
    own["metadata"]["labels"] = labels
    await synced.tenant_client.create(PODS, own, namespace=space)
    service = {"selector": labels, "ports": [{"port": 80}]}
    body = {"metadata": {"name": "edge"}, "spec": service}
    await synced.tenant_client.create(SERVICES, body, namespace=space)
    body = {"metadata": {"name": "p"}, "spec": {"podSelector": {"matchLabels": labels}}}
    await synced.tenant_client.create(NETWORK_POLICIES, body, namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "edge"))
    service = (await eventually(lambda: synced.twin(SERVICES, space, "edge")))["spec"]
    policy = (await eventually(lambda: synced.twin(NETWORK_POLICIES, space, "p")))["spec"]
    assert service["selector"] == policy["podSelector"]["matchLabels"]
    selector = ",".join(f"{name}={value}" for name, value in service["selector"].items())
    super_space = synced.session.view.get_super_namespace(space)
    found = await synced.super_client.list(PODS, namespace=super_space, label_selector=selector)
    assert [item["metadata"]["name"] for item in found["items"]] == ["edge"]
    assert key not in found["items"][0]["metadata"]["labels"]
    changed = {"metadata": {"labels": {key: "other"}}}
    await synced.tenant_client.patch(PODS, "edge", changed, namespace=space)
    translated = next(iter(service["selector"]))
    await eventually(
        lambda: synced.twin(PODS, space, "edge"),
        until=lambda twin: twin["metadata"]["labels"][translated] == "other",
    )


async def test_policies_that_are_withdrawn_go_away(synced: SyncerWorld):
    space = await synced.namespace()
    body = {"metadata": {"name": "p"}, "spec": {"podSelector": {}}}
    await synced.tenant_client.create(NETWORK_POLICIES, body, namespace=space)
    await eventually(lambda: synced.twin(NETWORK_POLICIES, space, "p"))
    set_policy(synced, sync={"networkPolicies": "Refuse"})
    synced.session.work.enqueue(synced.session.build_key("NetworkPolicy", space, "p"))
    await gone(lambda: synced.twin(NETWORK_POLICIES, space, "p"))
    assert "network-policies" in (await told(synced, space))["message"]


# --- disruption budgets ---------------------------------------------------------------------------


async def test_a_budget_is_the_tenants_number_with_room_for_one(synced: SyncerWorld):
    space, node = await synced.namespace(), await synced.super_node()
    for name in ("a", "b"):
        body = pod(name)
        body["metadata"]["labels"] = {"app": "web"}
        await synced.tenant_client.create(PODS, body, namespace=space)
        await synced.start_pod(space, name, node)
    spec = {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}
    await synced.tenant_client.create(
        POD_DISRUPTION_BUDGETS, {"metadata": {"name": "x"}, "spec": spec}, namespace=space
    )
    await synced.idle()
    assert not await synced.has_twin(POD_DISRUPTION_BUDGETS, space, "x")

    async def judged(desired: int, wanted: int) -> Object:
        status = {
            "observedGeneration": 1,
            "desiredHealthy": desired,
            "currentHealthy": 2,
            "expectedPods": 2,
            "disruptionsAllowed": 0,
        }
        await synced.tenant_client.patch(
            POD_DISRUPTION_BUDGETS,
            "x",
            {"status": status},
            namespace=space,
            subresource="status",
        )
        twin = await eventually(
            lambda: synced.twin(POD_DISRUPTION_BUDGETS, space, "x"),
            until=lambda twin: twin["spec"]["minAvailable"] == wanted,
        )
        await synced.idle()
        return dict(twin)

    twin = await judged(2, 1)
    assert twin["spec"]["selector"]["matchLabels"][wellknown.VC_UID] == synced.tenant.uid
    assert "maxUnavailable" not in twin["spec"]
    since, tenant_mark = synced.mark("super"), synced.mark("tenant")
    await judged(0, 0)
    await judged(1, 1)
    await synced.tenant_client.delete(PODS, "b", namespace=space)
    await synced.remove_pod(space, "b")
    await gone(lambda: synced.twin(PODS, space, "b"))
    await eventually(
        lambda: synced.twin(POD_DISRUPTION_BUDGETS, space, "x"),
        until=lambda twin: twin["spec"]["minAvailable"] == 0,
    )
    await synced.idle()
    found = [w.verb for w in synced.writes("super", since) if w.resource == "poddisruptionbudgets"]
    assert found == ["update"] * 3
    assert not [w for w in synced.writes("tenant", tenant_mark) if "disruption" in w.resource]


async def test_a_pod_has_one_budget_and_the_next_one_when_that_is_gone(synced: SyncerWorld):
    space = await synced.namespace()
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    status = {
        "observedGeneration": 1,
        "desiredHealthy": 1,
        "currentHealthy": 2,
        "expectedPods": 2,
        "disruptionsAllowed": 1,
    }
    for name in ("first", "second"):
        await synced.tenant_client.create(
            POD_DISRUPTION_BUDGETS, {"metadata": {"name": name}, "spec": spec}, namespace=space
        )
        await synced.tenant_client.patch(
            POD_DISRUPTION_BUDGETS,
            name,
            {"status": status},
            namespace=space,
            subresource="status",
        )
        if name == "first":
            await eventually(lambda: synced.twin(POD_DISRUPTION_BUDGETS, space, "first"))
    event = await told(synced, space)
    assert "rule budget-overlap" in event["message"]
    assert not await synced.has_twin(POD_DISRUPTION_BUDGETS, space, "second")
    await synced.tenant_client.delete(POD_DISRUPTION_BUDGETS, "first", namespace=space)
    await eventually(lambda: synced.twin(POD_DISRUPTION_BUDGETS, space, "second"))
