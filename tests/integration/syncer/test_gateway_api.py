"""Gateway API by the chart's own SyncRules, with the real definitions, on real API servers.

No gateway runs here. The tests write the status as a gateway does. `test_gateway_packets` has the
real gateway.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import yaml

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import AlreadyExists, NotFound
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    INGRESSES,
    NAMESPACES,
    SERVICES,
    SYNC_RULES,
    Resource,
)
from tests.integration.syncer.test_sync_rules import manage
from tests.integration.syncer.world import SYNCER, SyncerWorld, policed
from tests.support.eventually import eventually
from tests.support.helm import render
from tests.support.names import fresh_name
from tools.testbed.artifacts import binaries
from tools.testbed.networks import gateway

pytestmark = pytest.mark.thorough

GROUP = "gateway.networking.k8s.io"
EDGE, SHOWN = "edge", "gateways"
"""Namespaces of the shared Gateways, in the super cluster and in the tenant."""
SHARED = {"shared-with-tenants": "true"}
HTTP_ROUTES = Resource(GROUP, "v1", "httproutes", "HTTPRoute")
GRPC_ROUTES = Resource(GROUP, "v1", "grpcroutes", "GRPCRoute")
TLS_ROUTES = Resource(GROUP, "v1", "tlsroutes", "TLSRoute")
TLS_POLICIES = Resource(GROUP, "v1", "backendtlspolicies", "BackendTLSPolicy")
GRANTS = Resource(GROUP, "v1", "referencegrants", "ReferenceGrant")
GATEWAYS = Resource(GROUP, "v1", "gateways", "Gateway")
CLASSES = Resource(GROUP, "v1", "gatewayclasses", "GatewayClass", namespaced=False)
CONDITION = {
    "type": "Accepted",
    "status": "True",
    "reason": "Accepted",
    "message": "Route accepted",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


WEB: Object = {"name": "web", "port": 80, "protocol": "HTTP"}
"""Listener of a Gateway."""


def build_gateway(name: str, labels: dict[str, str], *listeners: Object) -> Object:
    """Return a Gateway of the super cluster, whose listeners accept routes of all namespaces."""
    allowed = {"allowedRoutes": {"namespaces": {"from": "All"}}}
    found = [{**each, **allowed} for each in listeners or (WEB,)]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"gatewayClassName": "edge", "listeners": found},
    }


def build_route(
    name: str, *hosts: str, gateway: str = "shared", section: str = "web", **rule: Any
) -> Object:
    """Return a route of a tenant with one rule."""
    parent = {"name": gateway, "namespace": SHOWN, "sectionName": section}
    rule.setdefault("backendRefs", [{"name": "web", "port": 80}])
    return {
        "metadata": {"name": name},
        "spec": {"parentRefs": [parent], "hostnames": list(hosts), "rules": [rule]},
    }


def fresh_host() -> str:
    """Return a host that no test has used."""
    return f"{fresh_name('shop')}.example"


async def create(client: Client, resource: Resource, body: Object, *, namespace: str = "") -> None:
    """Create an object of any kind."""
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    await client.create(resource, {**body, **identity}, namespace=namespace)


async def ensure(world: SyncerWorld, resource: Resource, body: Object, namespace: str = "") -> None:
    """Create an object of the super cluster, unless an earlier test has."""
    with contextlib.suppress(AlreadyExists):
        await create(world.super_client, resource, body, namespace=namespace)


async def grant(world: SyncerWorld, rules: list[Object]) -> None:
    """Grant the syncer the rights of the chart's ClusterRole, on both sides."""
    name = wellknown.SYNCER_RULES_ROLE
    role = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole"}
    role |= {"metadata": {"name": name}, "rules": rules}
    await world.super_client.apply(CLUSTER_ROLES, role, field_manager="tests")
    group = CLUSTER_ROLES.group
    binding = {
        "apiVersion": CLUSTER_ROLE_BINDINGS.api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": SYNCER}],
    }
    await world.super_client.apply(CLUSTER_ROLE_BINDINGS, binding, field_manager="tests")
    own = {**binding, "metadata": {"name": "tests-rules"}}
    await world.tenant_client.apply(CLUSTER_ROLE_BINDINGS, own, field_manager="tests")


@contextlib.asynccontextmanager
async def gateways(world: SyncerWorld) -> AsyncIterator[str]:
    """Have the chart's rules, a shown and a hidden Gateway, and the syncer. Yield a namespace."""
    values = f"gateways.namespace={EDGE},syncRules.gatewayApi.gateways.tenantNamespace={SHOWN}"
    objects = render("--set", f"syncRules.gatewayApi.enabled=true,syncRules.gatewayApi.{values}")
    rules = [each for each in objects if each["kind"] == "SyncRule"]
    folder = binaries.source("traefik", "sigs.k8s.io/gateway-api") / "config" / "crd" / "standard"
    for rule in rules:
        file = folder / f"{GROUP}_{rule['spec']['resource']['plural']}.yaml"
        await ensure(world, CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(file.read_text()))
    roles = (each for each in objects if each["metadata"]["name"].startswith("sync-rule:"))
    await grant(world, [rule for role in roles for rule in role["rules"]])
    for rule in rules:
        await world.super_client.create(SYNC_RULES, rule, validation="Strict")
    await ensure(world, NAMESPACES, {"metadata": {"name": EDGE}})
    chosen = ClassFilter(match_labels={"sync-rules": "gateway-api"})
    policy = msgspec.structs.replace(BASELINE_POLICY, sync_rules=chosen)
    async with policed(world, policy), world.syncer():
        try:
            await eventually(
                lambda: manage(world),
                until=lambda found: all(
                    item["status"]["conditions"][0]["status"] == "True" for item in found
                ),
                within=60,
            )
            await manage(world)  # writes the definitions into the tenant
            spec = {"controllerName": gateway.CONTROLLER}
            await ensure(world, CLASSES, {"metadata": {"name": "edge"}, "spec": spec})
            await ensure(world, GATEWAYS, build_gateway("shared", SHARED), EDGE)
            await ensure(world, GATEWAYS, build_gateway("hidden", {}), EDGE)
            with contextlib.suppress(AlreadyExists):
                await create(world.tenant_client, NAMESPACES, {"metadata": {"name": SHOWN}})
            await eventually(
                lambda: world.tenant_client.get(GATEWAYS, "shared", namespace=SHOWN), within=90
            )
            yield await world.namespace()
        finally:
            for rule in rules:
                with contextlib.suppress(NotFound):
                    await world.super_client.delete(SYNC_RULES, rule["metadata"]["name"])
    await manage(world)


async def find_refusal(world: SyncerWorld, namespace: str, name: str) -> str:
    """Wait for the refusal of an object, and return its message."""

    async def find() -> str:
        for event in await world.events(namespace):
            about = (event.get("regarding") or event.get("involvedObject") or {}).get("name")
            if event["reason"] == "SyncRejected" and about == name:
                return str(event.get("message") or event.get("note"))
        return ""

    return await eventually(find, until=bool, within=30)


async def test_routes_reach_the_super_cluster_and_their_status_comes_back(world: SyncerWorld):
    """Routes, grants and policies have names of the super cluster, and their statuses have not."""
    async with gateways(world) as space:
        host, other = fresh_host(), await world.namespace()
        super_space, elsewhere = (world.super_namespace(each) for each in (space, other))
        mirrored = {"backendRef": {"name": "shadow", "namespace": other, "port": 80}}
        refs = [{"name": "web", "port": 80}, {"name": "api", "namespace": other, "port": 81}]
        route = build_route("web", host, backendRefs=refs)
        headers = {"set": [{"name": "x-shop", "value": "1"}]}
        route["spec"]["rules"][0]["filters"] = [
            {"type": "RequestMirror", "requestMirror": mirrored},
            {"type": "RequestHeaderModifier", "requestHeaderModifier": headers},
        ]
        await create(world.tenant_client, HTTP_ROUTES, route, namespace=space)
        twin = await eventually(lambda: world.twin(HTTP_ROUTES, space, "web"), within=30)
        (parent,), (rule,) = twin["spec"]["parentRefs"], twin["spec"]["rules"]
        assert (parent["name"], parent["namespace"]) == ("shared", EDGE)
        assert [each.get("namespace") for each in rule["backendRefs"]] == [None, elsewhere]
        assert rule["filters"][0]["requestMirror"]["backendRef"]["namespace"] == elsewhere
        assert rule["filters"][1]["requestHeaderModifier"] == headers

        shown = {**CONDITION, "message": f"{super_space}/web is attached"}
        status = {
            "parents": [
                {
                    "parentRef": {**parent, "namespace": EDGE},
                    "controllerName": "example.io/gateway",
                    "conditions": [{**shown, "observedGeneration": 1}],
                }
            ]
        }
        await world.super_client.patch(
            HTTP_ROUTES, "web", {"status": status}, namespace=super_space, subresource="status"
        )
        own = await eventually(
            lambda: world.tenant_client.get(HTTP_ROUTES, "web", namespace=space),
            until=lambda found: bool((found.get("status") or {}).get("parents")),
        )
        (entry,) = own["status"]["parents"]
        assert entry["parentRef"]["namespace"] == SHOWN
        assert entry["parentRef"]["sectionName"] == "web"
        assert entry["conditions"] == [{**CONDITION, "message": f"{space}/web is attached"}]

        froms = [{"group": GROUP, "kind": "HTTPRoute", "namespace": space}]
        body = {"from": froms, "to": [{"group": "", "kind": "Service", "name": "api"}]}
        grant_body = {"metadata": {"name": "web"}, "spec": body}
        await create(world.tenant_client, GRANTS, grant_body, namespace=other)
        twin = await eventually(lambda: world.twin(GRANTS, other, "web"))
        assert twin["spec"]["from"][0]["namespace"] == super_space
        assert twin["spec"]["to"] == body["to"]

        grpc = build_route("rpc", fresh_host())
        await create(world.tenant_client, GRPC_ROUTES, grpc, namespace=space)
        await eventually(lambda: world.twin(GRPC_ROUTES, space, "rpc"))
        await create(
            world.tenant_client, TLS_ROUTES, build_route("tls", fresh_host()), namespace=space
        )
        await eventually(lambda: world.twin(TLS_ROUTES, space, "tls"))

        data = {"metadata": {"name": "authority"}, "data": {"ca.crt": "x"}}
        await create(world.tenant_client, CONFIG_MAPS, data, namespace=space)
        validation = {
            "hostname": "web.example",
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "authority"}],
        }
        target = {"group": "", "kind": "Service", "name": "web"}
        spec = {"targetRefs": [target], "validation": validation}
        policy = {"metadata": {"name": "web"}, "spec": spec}
        await create(world.tenant_client, TLS_POLICIES, policy, namespace=space)
        twin = await eventually(lambda: world.twin(TLS_POLICIES, space, "web"))
        assert twin["spec"] == spec
        await eventually(lambda: world.twin(CONFIG_MAPS, space, "authority"))


async def test_gateways_are_shown_with_their_status(world: SyncerWorld):
    """A tenant sees the labelled Gateway with addresses and conditions, and cannot change them."""
    async with gateways(world):
        condition = {**CONDITION, "type": "Programmed", "message": "Gateway is programmed"}
        addresses = [{"type": "IPAddress", "value": "198.51.100.7"}]
        status = {"addresses": addresses, "conditions": [condition]}
        patch = {"status": status}
        await world.super_client.patch(
            GATEWAYS, "shared", patch, namespace=EDGE, subresource="status"
        )

        async def read() -> Object:
            return await world.tenant_client.get(GATEWAYS, "shared", namespace=SHOWN)

        def is_shown(found: Object) -> bool:
            shown = found.get("status") or {}
            return shown.get("addresses") == addresses and condition in shown["conditions"]

        await eventually(read, until=is_shown, within=30)
        forged = {"status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.9"}]}}
        await world.tenant_client.patch(
            GATEWAYS, "shared", forged, namespace=SHOWN, subresource="status"
        )
        await eventually(read, until=is_shown, within=30)

        found = await world.tenant_client.list(GATEWAYS, namespace=SHOWN)
        names = {each["metadata"]["name"] for each in found["items"]}
        assert "shared" in names
        assert "hidden" not in names
        accepted = {"status": {"conditions": [CONDITION]}}
        await world.super_client.patch(CLASSES, "edge", accepted, subresource="status")
        await eventually(
            lambda: world.tenant_client.get(CLASSES, "edge"),
            until=lambda each: CONDITION in (each.get("status") or {}).get("conditions", ()),
            within=30,
        )


async def test_what_would_touch_others_is_refused(world: SyncerWorld):
    """Each refusal is an Event with its rule, and no object reaches the super cluster."""
    async with gateways(world) as space:
        extension = {
            "type": "ExtensionRef",
            "extensionRef": {"group": "traefik.io", "kind": "Middleware", "name": "x"},
        }
        cases = {
            "any-host": (build_route("any-host"), "ingress-host", "spec.hostnames"),
            "wide": (build_route("wide", "*.example"), "ingress-host", "spec.hostnames[0]"),
            "hidden": (
                build_route("hidden", fresh_host(), gateway="hidden"),
                "sync-rule-reference",
                "spec.parentRefs[0].name",
            ),
            "extended": (
                build_route("extended", fresh_host(), filters=[extension]),
                "sync-rule-field",
                "spec.rules[0].filters[0].extensionRef",
            ),
            "own-kind": (
                build_route(
                    "own-kind",
                    fresh_host(),
                    backendRefs=[{"group": "traefik.io", "kind": "TraefikService", "name": "api"}],
                ),
                "sync-rule-reference",
                "spec.rules[0].backendRefs[0].kind",
            ),
        }
        for route, _, _ in cases.values():
            await create(world.tenant_client, HTTP_ROUTES, route, namespace=space)
        for name, (_, rule, path) in cases.items():
            message = await find_refusal(world, space, name)
            assert f"rule {rule}" in message, (name, message)
            assert message.startswith(path), (name, message)
            assert not await world.has_twin(HTTP_ROUTES, space, name)

        outside = build_route("outside", fresh_host())
        outside["spec"]["parentRefs"][0]["namespace"] = EDGE  # its name in the super cluster
        await create(world.tenant_client, HTTP_ROUTES, outside, namespace=space)
        assert f"must be {SHOWN}" in await find_refusal(world, space, "outside")

        spec = {"type": "ExternalName", "externalName": "db.internal"}
        external = {"metadata": {"name": "external"}, "spec": spec}
        await create(world.tenant_client, SERVICES, external, namespace=space)
        named = build_route("named", fresh_host(), backendRefs=[{"name": "external", "port": 80}])
        await create(world.tenant_client, HTTP_ROUTES, named, namespace=space)
        assert "ExternalName" in await find_refusal(world, space, "named")


async def test_a_host_belongs_to_the_first_object_that_names_it(world: SyncerWorld):
    """A host of another owner is refused across kinds, until it is free."""
    async with gateways(world) as space:
        host = fresh_host()
        parent = {"name": "shared", "namespace": EDGE}
        spec = {"parentRefs": [parent], "hostnames": [host]}
        other = {"metadata": {"name": fresh_name("theirs")}, "spec": spec}
        await create(world.super_client, HTTP_ROUTES, other, namespace="default")
        stores = world.session.connection.home_cluster.ruled.get_host_stores()
        foreign = stores["HTTPRoute of no tenant"]
        await eventually(lambda: foreign.get("default", other["metadata"]["name"]))
        path = {"path": "/", "pathType": "Prefix"}
        path["backend"] = {"service": {"name": "web", "port": {"number": 80}}}
        ingress = {
            "metadata": {"name": "web"},
            "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
        }
        claims = (
            (HTTP_ROUTES, build_route("http", host)),
            (GRPC_ROUTES, build_route("grpc", host)),
            (INGRESSES, ingress),
        )
        for resource, body in claims:
            name = body["metadata"]["name"]
            await create(world.tenant_client, resource, body, namespace=space)
            assert "rule host-taken" in await find_refusal(world, space, name)
            assert not await world.has_twin(resource, space, name)
        await world.super_client.delete(HTTP_ROUTES, other["metadata"]["name"], namespace="default")
        for resource, body in claims:
            name = body["metadata"]["name"]
            await eventually(lambda r=resource, n=name: world.twin(r, space, n), within=30)


async def test_a_gateway_that_is_no_longer_shown_loses_the_routes(world: SyncerWorld):
    """The copy of a route goes when the super admin removes the label of its Gateway."""
    async with gateways(world) as space:
        await ensure(world, GATEWAYS, build_gateway("lent", SHARED), EDGE)
        await eventually(
            lambda: world.tenant_client.get(GATEWAYS, "lent", namespace=SHOWN), within=30
        )
        route = build_route("web", fresh_host(), gateway="lent")
        await create(world.tenant_client, HTTP_ROUTES, route, namespace=space)
        await eventually(lambda: world.twin(HTTP_ROUTES, space, "web"))
        hidden = {"metadata": {"labels": dict.fromkeys(SHARED)}}
        await world.super_client.patch(GATEWAYS, "lent", hidden, namespace=EDGE)
        await eventually(
            lambda: world.has_twin(HTTP_ROUTES, space, "web"), until=lambda there: not there
        )
        assert "rule sync-rule-reference" in await find_refusal(world, space, "web")
