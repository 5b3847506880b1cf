"""Routes of two tenants on one real gateway, with real packets.

Traefik runs in the super cluster, as a platform administrator would run it. The rules are those of
the chart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until
from tools.testbed import chart
from tools.testbed.artifacts.registry import publish
from tools.testbed.networks import gateway
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

GATEWAY_API = "gateway.networking.k8s.io/v1"
EDGE, SHOWN, SPACE = "edge", "gateways", "routed"
"""Namespaces of the gateway in the super cluster, of its mirror, and of the tenants' routes."""
VALUES = (
    "syncRules.gatewayApi.enabled=true",
    f"syncRules.gatewayApi.gateways.namespace={EDGE}",
    f"syncRules.gatewayApi.gateways.tenantNamespace={SHOWN}",
)
POLICY = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "TenantPolicy",
    "metadata": {"name": "routes"},
    "spec": {"syncRules": {"matchLabels": {"sync-rules": "gateway-api"}}},
}
CLASS = {
    "apiVersion": GATEWAY_API,
    "kind": "GatewayClass",
    "metadata": {"name": "traefik"},
    "spec": {"controllerName": gateway.CONTROLLER},
}
SELECTOR = {"matchExpressions": [{"key": "tenancy.x-k8s.io/vcuid", "operator": "Exists"}]}
LISTENER = {
    "name": "web",
    "port": gateway.PORT,
    "protocol": "HTTP",
    "allowedRoutes": {"namespaces": {"from": "Selector", "selector": SELECTOR}},
}
GATEWAY = {
    "apiVersion": GATEWAY_API,
    "kind": "Gateway",
    "metadata": {
        "name": "shared",
        "namespace": EDGE,
        "labels": {"shared-with-tenants": "true"},
    },
    "spec": {"gatewayClassName": "traefik", "listeners": [LISTENER]},
}


@dataclass(frozen=True)
class Gateway:
    """The gateway with its two tenants."""

    super_cluster: SuperClusterAdmin
    tenants: tuple[TenantAdmin, TenantAdmin]

    def fetch(self, host: str) -> str:
        """Return what the gateway answers for a host, from a node."""
        pods = self.super_cluster.kubectl.items("pods", "-n", EDGE, "-l", "app=traefik")
        address = f"http://{pods[0]['status']['podIP']}:{gateway.PORT}/"
        node = self.super_cluster.cluster.topology.nodes[0].name
        done = self.super_cluster.curl_from_node(node, "-H", f"Host: {host}", address)
        return done.stdout.strip()


def build_route(name: str, host: str, **backend: Any) -> dict[str, Any]:
    """Return a route of a tenant to one Service."""
    return {
        "apiVersion": GATEWAY_API,
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "parentRefs": [{"name": "shared", "namespace": SHOWN}],
            "hostnames": [host],
            "rules": [{"backendRefs": [{"name": "web", "port": 80, **backend}]}],
        },
    }


def build_server(words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pod that serves one line, and its Service."""
    script = f"mkdir -p /tmp/www; echo {words} > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    return node_objects.pod("web", script, namespace=SPACE), service


def bind_policy(super_cluster: SuperClusterAdmin, tenant: TenantAdmin, ref: Any) -> None:
    """Bind a tenant to a policy, or to none."""
    patch = json.dumps({"spec": {"policyRef": ref}})
    super_cluster.kubectl.run("patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch)


def await_mirror(tenant: TenantAdmin) -> None:
    """Wait until a tenant sees the shared Gateway."""
    until(
        lambda: tenant.kubectl.call("get", "gateways", "shared", "-n", SHOWN).code == 0,
        "the Gateway in the tenant",
        seconds=180,
    )


@pytest.fixture(scope="module")
def edge(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[Gateway]:
    """A gateway in the super cluster, and two tenants with one server each."""
    kubectl, tenants = super_cluster.kubectl, (tenant_a, tenant_b)
    publish(gateway.build(StepPrinter()), super_cluster.cluster.places.registry)
    for file in gateway.list_definitions():
        kubectl.run("apply", "--server-side", "-f", str(file))
    kubectl.run("create", "namespace", EDGE)
    kubectl.apply(*gateway.build_objects(EDGE), CLASS, GATEWAY, POLICY)
    kubectl.run("-n", EDGE, "rollout", "status", "deployment/traefik", "--timeout=120s")
    values = (*chart.KUBELET_UPSTREAM, *VALUES)
    chart.install(super_cluster.cluster, StepPrinter(), values=values)
    kubectl.run("wait", "syncrules", "--all", "--for=condition=Ready", "--timeout=120s")
    for tenant in tenants:
        bind_policy(super_cluster, tenant, {"name": "routes"})
        for space in (SHOWN, SPACE):
            tenant.kubectl.run("create", "namespace", space)
        tenant.kubectl.apply(*build_server(tenant.name))
    for tenant in tenants:
        await_mirror(tenant)
        wait = ("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
        tenant.kubectl.run("-n", SPACE, *wait, timeout=130)
    yield Gateway(super_cluster, tenants)
    for tenant in tenants:
        tenant.kubectl.run("delete", "namespace", SPACE, SHOWN, timeout=120)
        bind_policy(super_cluster, tenant, None)
    off = (*chart.KUBELET_UPSTREAM, "syncRules.gatewayApi.enabled=false")
    chart.install(super_cluster.cluster, StepPrinter(), values=off)
    kubectl.run("delete", "tenantpolicy", "routes")
    kubectl.run("delete", "namespace", EDGE, timeout=120)
    kubectl.run("delete", "clusterrole,clusterrolebinding", "traefik-gateway")
    for file in gateway.list_definitions():
        kubectl.run("delete", "-f", str(file), timeout=120)


def test_a_tenant_sees_the_gateway_with_its_address(edge: Gateway):
    """The status of the Gateway and of its class comes from the real controller."""
    kubectl = edge.tenants[0].kubectl
    for kind, name, space in (("gateway", "shared", SHOWN), ("gatewayclass", "traefik", "")):
        place = ("-n", space) if space else ()
        wait = ("wait", f"{kind}/{name}", "--for=condition=Accepted", "--timeout=60s")
        kubectl.run(*wait, *place, timeout=70)
    shown = kubectl.get("gateway", "shared", "-n", SHOWN)["status"]
    assert shown["addresses"] == [{"type": "Hostname", "value": f"traefik.{EDGE}"}]


def test_a_route_reaches_the_service_of_its_tenant(edge: Gateway):
    """Each tenant has the same names, and its host leads to its own pod."""
    for tenant in edge.tenants:
        tenant.kubectl.apply(build_route("web", f"{tenant.name}.example"))
    for tenant in edge.tenants:
        until(
            lambda tenant=tenant: edge.fetch(f"{tenant.name}.example") == tenant.name,
            f"an answer of {tenant.name}",
            seconds=90,
        )

        def is_accepted(tenant: TenantAdmin = tenant) -> bool:
            route = tenant.kubectl.get("httproute", "web", "-n", SPACE)
            for parent in route.get("status", {}).get("parents", []):
                found = {each["type"]: each["status"] for each in parent["conditions"]}
                assert parent["parentRef"]["namespace"] == SHOWN
                assert tenant.root not in json.dumps(route["status"])
                if found.get("Accepted") == found.get("ResolvedRefs") == "True":
                    return True
            return False

        until(is_accepted, "the status of the route in the tenant")


def test_a_route_to_the_service_of_another_tenant_reaches_nothing(edge: Gateway):
    """The name of a foreign super namespace means a namespace of the same tenant."""
    thief, victim = edge.tenants
    host = "theft.example"
    foreign = victim.super_namespace(SPACE)
    thief.kubectl.apply(build_route("theft", host, namespace=foreign))
    below = thief.super_namespace(SPACE)
    route = until(
        lambda: (
            edge.super_cluster.kubectl.exists("httproute", "theft", "-n", below)
            and edge.super_cluster.kubectl.get("httproute", "theft", "-n", below)
        ),
        "the route in the super cluster",
    )
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    assert backend["namespace"] not in (foreign, victim.root)

    def is_unresolved() -> bool:
        found = thief.kubectl.get("httproute", "theft", "-n", SPACE).get("status", {})
        conditions = [each for one in found.get("parents", []) for each in one["conditions"]]
        return any(
            (each["type"], each["status"]) == ("ResolvedRefs", "False") for each in conditions
        )

    until(is_unresolved, "the gateway's refusal in the tenant", seconds=90)
    assert victim.name not in edge.fetch(host)


def test_the_host_of_another_tenant_is_refused(edge: Gateway):
    """The first tenant keeps its host, and the second one gets an Event."""
    first, second = edge.tenants
    host = f"{first.name}.example"
    first.kubectl.apply(build_route("web", host))
    until(lambda: edge.fetch(host) == first.name, "an answer of the first tenant", seconds=90)
    second.kubectl.apply(build_route("stolen", host))
    until(
        lambda: "rule host-taken" in second.kubectl.run("-n", SPACE, "events"),
        "the Event about the host",
    )
    below = second.super_namespace(SPACE)
    assert not edge.super_cluster.kubectl.exists("httproute", "stolen", "-n", below)
    assert edge.fetch(host) == first.name
