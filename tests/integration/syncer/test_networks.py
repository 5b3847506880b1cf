"""Additional networks through real API servers, and a network of the tenant's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import Forbidden, NotFound
from syncer.rules.network.attachments import tenant_crds
from syncer.rules.network.attachments.multi_network_policies import POLICY_FOR
from syncer.rules.network.attachments.network_status import STATUS_ANNOTATIONS
from syncer.rules.network.attachments.selections import DEFAULT_NETWORK, NETWORKS
from tenancy import names, wellknown
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.policy.network_attachments import NetworkAttachments
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MULTI_NETWORK_POLICIES,
    NETWORK_ATTACHMENTS,
    PODS,
    SERVICES,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.syncer.attachments import OFFER, OWN, bridge

pytestmark = [pytest.mark.thorough, pytest.mark.integration]

KINDS = (NETWORK_ATTACHMENTS, MULTI_NETWORK_POLICIES)
FIRST_STATUS = STATUS_ANNOTATIONS[0]


def policy(**fields: Any) -> TenantPolicySpec:
    """Return a policy that offers networks."""
    offer = {**OFFER, "multiNetworkPolicies": "Allow", **fields}
    attachments = msgspec.convert(offer, NetworkAttachments)
    network = msgspec.structs.replace(BASELINE_POLICY.network, attachments=attachments)
    return msgspec.structs.replace(BASELINE_POLICY, network=network)


async def serve(client: Client, resource: Resource) -> None:
    """Have a cluster serve a kind, as Multus brings it."""
    body = tenant_crds.build_crd(resource.kind)
    try:
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, body["metadata"]["name"])
    except NotFound:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    await eventually(lambda: client.list(resource))


@pytest.fixture
async def own(super_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    """A tenant of the test's own. The super cluster serves both kinds."""
    async with own_world(super_plane, tmp_path / fresh_name("tenant")) as world:
        for resource in KINDS:
            await serve(world.super_client, resource)
        yield world


def attachment(name: str, config: Any) -> Object:
    """Return a NetworkAttachmentDefinition."""
    return {
        "apiVersion": NETWORK_ATTACHMENTS.api_version,
        "kind": NETWORK_ATTACHMENTS.kind,
        "metadata": {"name": name},
        "spec": {"config": config if isinstance(config, str) else json.dumps(config)},
    }


async def create(world: SyncerWorld, resource: Resource, namespace: str, body: Object) -> None:
    """Create an object in the tenant, once the tenant serves its kind."""
    await eventually(lambda: world.tenant_client.list(resource, namespace=namespace))
    await world.tenant_client.create(resource, body, namespace=namespace)


async def told(world: SyncerWorld, namespace: str, text: str) -> None:
    """Wait for an Event of the tenant with a text."""
    await eventually(
        lambda: world.events(namespace),
        until=lambda found: any(text in each["message"] for each in found),
    )


async def test_both_kinds_are_synced_and_follow_the_tenant(own: SyncerWorld):
    async with policed(own, policy()), own.syncer(has_networks=True):
        space = await own.namespace()
        await create(own, NETWORK_ATTACHMENTS, space, attachment("lab", bridge()))
        twin = await eventually(lambda: own.twin(NETWORK_ATTACHMENTS, space, "lab"))
        plugin = json.loads(twin["spec"]["config"])["plugins"][0]
        assert (plugin["bridge"], plugin["vlan"], plugin["ipam"]["range_start"]) == (
            *("br-shared", 100, "10.100.8.0"),
        )
        policy_body = {
            "apiVersion": MULTI_NETWORK_POLICIES.api_version,
            "kind": MULTI_NETWORK_POLICIES.kind,
            "metadata": {"name": "p", "annotations": {POLICY_FOR: "lab"}},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]},
        }
        await create(own, MULTI_NETWORK_POLICIES, space, policy_body)
        super_policy = await eventually(lambda: own.twin(MULTI_NETWORK_POLICIES, space, "p"))
        peer = super_policy["spec"]["ingress"][0]["from"][0]
        assert peer["namespaceSelector"]["matchLabels"] == {wellknown.VC_UID: own.tenant.uid}
        wanted = f"{own.super_namespace(space)}/lab"
        assert super_policy["metadata"]["annotations"][POLICY_FOR] == wanted

        # A change of the tenant, drift in the super cluster, and a refused change.
        changed = {"spec": {"config": json.dumps(bridge(vlan=101))}}
        await own.tenant_client.patch(NETWORK_ATTACHMENTS, "lab", changed, namespace=space)
        await eventually(
            lambda: own.twin(NETWORK_ATTACHMENTS, space, "lab"),
            until=lambda found: '"vlan":101' in found["spec"]["config"],
        )
        drift = {"spec": {"config": "{}"}}
        below_space = own.super_namespace(space)
        await own.super_client.patch(NETWORK_ATTACHMENTS, "lab", drift, namespace=below_space)
        await eventually(
            lambda: own.twin(NETWORK_ATTACHMENTS, space, "lab"),
            until=lambda found: '"vlan":101' in found["spec"]["config"],
        )
        hostile = {"spec": {"config": json.dumps(bridge(isGateway=True))}}
        await own.tenant_client.patch(NETWORK_ATTACHMENTS, "lab", hostile, namespace=space)
        await told(own, space, "spec.config.isGateway is not offered. Remove it")
        await eventually(
            lambda: own.has_twin(NETWORK_ATTACHMENTS, space, "lab"), until=lambda found: not found
        )

        await own.tenant_client.delete(MULTI_NETWORK_POLICIES, "p", namespace=space)
        await eventually(
            lambda: own.has_twin(MULTI_NETWORK_POLICIES, space, "p"), until=lambda found: not found
        )
        await own.idle()
        assert not any(write.code >= 400 for write in own.writes("super"))


async def test_a_restart_writes_nothing_and_a_withdrawn_offer_deletes(own: SyncerWorld):
    space = await own.namespace()
    async with policed(own, policy()):
        async with own.syncer(has_networks=True):
            await create(own, NETWORK_ATTACHMENTS, space, attachment("lab", bridge()))
            await eventually(lambda: own.twin(NETWORK_ATTACHMENTS, space, "lab"))
            await own.idle()
        mark = own.mark("super")
        async with own.syncer(has_networks=True):
            assert not [
                write for write in own.writes("super", mark) if write.resource.startswith("network")
            ]
            found = (await own.super_client.list(TENANT_POLICIES))["items"]
            name = next(
                each["metadata"]["name"]
                for each in found
                if each["spec"]["network"]["attachments"]["types"]
            )
            closed = {"spec": {"network": {"attachments": {"types": [], "primaryDevice": ""}}}}
            await own.super_client.patch(TENANT_POLICIES, name, closed)
            await eventually(
                lambda: own.has_twin(NETWORK_ATTACHMENTS, space, "lab"),
                until=lambda found: not found,
            )


async def test_a_pod_waits_for_its_network_and_its_status_has_the_tenants_names(own: SyncerWorld):
    async with policed(own, policy()), own.syncer(has_networks=True):
        space, node = await own.namespace(), await own.super_node()
        body = pod("one")
        body["metadata"]["annotations"] = {NETWORKS: "lab@net1"}
        await own.tenant_client.create(PODS, body, namespace=space)
        await told(own, space, f"network {space}/lab, does not exist. Create the")
        assert not await own.has_twin(PODS, space, "one")
        await create(own, NETWORK_ATTACHMENTS, space, attachment("lab", bridge()))
        twin = await eventually(lambda: own.twin(PODS, space, "one"))
        super_space = own.super_namespace(space)
        assert json.loads(twin["metadata"]["annotations"][NETWORKS]) == [
            {"name": "lab", "namespace": super_space, "interface": "net1"}
        ]
        await own.start_pod(space, "one", node)
        entries = [
            {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.9"], "default": True},
            {"name": f"{super_space}/lab", "interface": "net1", "ips": ["10.100.8.1"]},
            {"name": "kube-system/storage", "interface": "net2"},
        ]
        status = {"metadata": {"annotations": {FIRST_STATUS: json.dumps(entries)}}}
        await own.super_client.patch(
            PODS, "one", status, namespace=super_space, subresource="status"
        )
        seen = await eventually(
            lambda: own.tenant_client.get(PODS, "one", namespace=space),
            until=lambda found: FIRST_STATUS in found["metadata"]["annotations"],
        )
        shown = json.loads(seen["metadata"]["annotations"][FIRST_STATUS])
        assert [each["name"] for each in shown] == ["", f"{space}/lab"]
        assert own.tenant.root not in json.dumps(seen)
        assert "kube-system" not in json.dumps(shown)
        # A forged status is overwritten, and the running pod keeps its networks.
        forged = {"metadata": {"annotations": {FIRST_STATUS: "[]", NETWORKS: "other"}}}
        await own.tenant_client.patch(PODS, "one", forged, namespace=space)
        await eventually(
            lambda: own.tenant_client.get(PODS, "one", namespace=space),
            until=lambda found: "lab" in found["metadata"]["annotations"][FIRST_STATUS],
        )
        await own.idle()
        twin = await own.twin(PODS, space, "one")
        assert json.loads(twin["metadata"]["annotations"][NETWORKS])[0]["name"] == "lab"


async def test_a_pod_with_a_refused_request_gets_an_event_and_no_twin(own: SyncerWorld):
    async with policed(own, policy()), own.syncer(has_networks=True):
        space = await own.namespace()
        await create(own, NETWORK_ATTACHMENTS, space, attachment("lab", bridge()))
        body = pod("one")
        body["metadata"]["annotations"] = {NETWORKS: '[{"name":"lab","ips":["10.100.12.1"]}]'}
        await own.tenant_client.create(PODS, body, namespace=space)
        await told(own, space, "must not use '10.100.12.1'. Choose an address of 10.100.8.0/22")
        body = pod("two")
        body["metadata"]["annotations"] = {DEFAULT_NETWORK: "lab"}
        await own.tenant_client.create(PODS, body, namespace=space)
        await told(own, space, f"metadata.annotations[{DEFAULT_NETWORK}] is not offered")
        assert not await own.has_twin(PODS, space, "one")
        assert not await own.has_twin(PODS, space, "two")


async def test_without_the_kind_in_the_super_cluster_the_tenant_is_informed(own: SyncerWorld):
    async with policed(own, policy()), own.syncer(has_networks=True):
        space = await own.namespace()
        name = tenant_crds.build_crd(NETWORK_ATTACHMENTS.kind)["metadata"]["name"]
        await own.super_client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
        await eventually(
            lambda: own.running[-1].home.is_served(NETWORK_ATTACHMENTS.kind),
            until=lambda served: not served,
        )
        await create(own, NETWORK_ATTACHMENTS, space, attachment("lab", bridge()))
        await told(own, space, "is not installed where your pods run")
        await serve(own.super_client, NETWORK_ATTACHMENTS)
        await eventually(lambda: own.twin(NETWORK_ATTACHMENTS, space, "lab"))


async def test_without_the_setting_no_right_is_used_and_the_annotation_is_left_out(
    own: SyncerWorld,
):
    async with policed(own, policy()), own.syncer():
        space = await own.namespace()
        body = pod("one")
        body["metadata"]["annotations"] = {NETWORKS: "lab"}
        await own.tenant_client.create(PODS, body, namespace=space)
        twin = await eventually(lambda: own.twin(PODS, space, "one"))
        assert NETWORKS not in twin["metadata"]["annotations"]
        await told(own, space, "additional networks are not offered to this cluster")


async def network(world: SyncerWorld, **fields: Any) -> None:
    """Set the tenant's own network."""
    patch = {"spec": {"network": {"driver": "multus-primary", "cidr": "10.20.0.0/16", **fields}}}
    tenant = world.tenant
    await world.super_client.patch(VIRTUAL_CLUSTERS, tenant.name, patch, namespace=tenant.namespace)


async def test_a_network_of_the_tenants_own(own: SyncerWorld):
    await network(own, gateway="10.20.0.1", dns=["10.20.0.2"])
    async with policed(own, policy()), own.syncer(has_networks=True):
        await eventually(
            lambda: own.condition(wellknown.NETWORK_READY),
            until=lambda found: found is not None and found["status"] == "True",
        )
        space = await own.namespace()
        await own.tenant_client.create(PODS, pod("one"), namespace=space)
        twin = await eventually(lambda: own.twin(PODS, space, "one"))
        super_space = own.super_namespace(space)
        assert json.loads(twin["metadata"]["annotations"][DEFAULT_NETWORK]) == [
            {"name": names.PRIMARY_NETWORK, "namespace": super_space}
        ]
        assert twin["spec"]["dnsConfig"]["nameservers"] == ["10.20.0.2"]
        found = await own.twin(NETWORK_ATTACHMENTS, space, names.PRIMARY_NETWORK)
        assert json.loads(found["spec"]["config"])["plugins"][0]["bridge"] == OWN
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "one"}, "ports": [{"port": 80}]},
        }
        await own.tenant_client.create(SERVICES, service, namespace=space)
        await told(own, space, "Set clusterIP to None")
        assert not await own.has_twin(SERVICES, space, "web")
        # A bad network: a condition that says what to do, and no new pod.
        await network(own, gateway="", cidr="10.99.0.0/16")
        await eventually(
            lambda: own.condition(wellknown.NETWORK_READY),
            until=lambda found: (
                found is not None
                and found["status"] == "False"
                and "Choose a part of one of them" in found["message"]
            ),
        )
        await own.tenant_client.create(PODS, pod("two"), namespace=space)
        await told(own, space, "has no network yet")
        # Without it the condition and the definition go.
        gone = {"spec": {"network": None}}
        tenant = own.tenant
        await own.super_client.patch(
            VIRTUAL_CLUSTERS, tenant.name, gone, namespace=tenant.namespace
        )
        await eventually(
            lambda: own.condition(wellknown.NETWORK_READY), until=lambda found: found is None
        )
        await eventually(
            lambda: own.has_twin(NETWORK_ATTACHMENTS, space, names.PRIMARY_NETWORK),
            until=lambda found: not found,
        )


@pytest.mark.parametrize(
    "config",
    [
        "",
        "{}",
        '{"cniVersion":"1.0.0","plugins":[{"type":"host-device","device":"eth0"}]}',
        '{"cniVersion":"1.0.0","plugins":[{"bridge":"b","isGateway":true,"type":"bridge"}]}',
        '{"cniVersion":"1.0.0","plugins":[{"type" :"host-device"}]}',
        '{"cniVersion":"1.0.0","plugins":[{"Type":"host-device"}]}',
        '{"cniVersion":"1.0.0","plugins":[{"\\u0074ype":"host-device"}]}',
    ],
)
async def test_the_gate_refuses_a_network_that_the_syncer_would_not_write(
    own: SyncerWorld, config: str
):
    async with policed(own, policy()), own.syncer(has_networks=True) as syncer:
        space = await own.namespace()
        good = attachment("gate", bridge())
        await create(own, NETWORK_ATTACHMENTS, space, good)
        twin = await eventually(lambda: own.twin(NETWORK_ATTACHMENTS, space, "gate"))
        forged = {"metadata": {"uid": twin["metadata"]["uid"]}, "spec": {"config": config}}
        with pytest.raises(Forbidden, match="a network of a tenant must have plugins"):
            await syncer.home.client.replace(NETWORK_ATTACHMENTS, {**twin, "spec": forged["spec"]})
