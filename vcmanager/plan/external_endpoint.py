"""Endpoint of a tenant's API for clients outside the super cluster.

Pure. Hazard: addresses of nodes and load balancers change, so they are not in the certificate. The
kubeconfig names the server name to expect instead. Pods in other clusters get the endpoint from two
variables, which have no field for a name. Where such pods are possible, the address is in the
certificate, and a new address requires a new certificate.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from tenancy.access import hosts
from tenancy.access.specs import EndpointSpec
from tenancy.specs import TargetGrant
from tenancy.super_clusters import HOME
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.runtime.options import ApiProxySettings

EndpointObject = Mapping[str, Any]
NO_ENDPOINT = EndpointSpec()


def find_external_address(
    service: EndpointObject,
    *,
    internal: ApiAddress,
    server_name: str,
    nodes: Iterable[EndpointObject] = (),
    known: str = "",
    wanted: EndpointSpec = NO_ENDPOINT,
) -> ApiAddress | None:
    """Return the address, or None while there is none yet.

    A host name in `wanted` is the address at once, because it is in the certificate. `known` is
    the published URL. It stays while it is still right, so that a kubeconfig does not change
    because a node was added.
    """
    spec = service["spec"]
    kind = spec.get("type", "ClusterIP")
    port = spec["ports"][0]
    if wanted.hostname:
        number = wanted.port or (port.get("nodePort") if kind == "NodePort" else port["port"])
        return ApiAddress(server=build_url(wanted.hostname, number)) if number else None
    if kind == "ClusterIP":
        return internal
    if kind == "LoadBalancer":
        balancer = (service.get("status") or {}).get("loadBalancer") or {}
        urls = [
            build_url(entry.get("ip") or entry.get("hostname"), port["port"])
            for entry in balancer.get("ingress") or ()
            if entry.get("ip") or entry.get("hostname")
        ]
    else:
        node_port = port.get("nodePort")
        urls = (
            [build_url(address, node_port) for address in list_node_addresses(nodes)]
            if node_port
            else []
        )
    if not urls:
        return None
    return ApiAddress(server=known if known in urls else urls[0], server_name=server_name)


def build_proxy_address(
    host: str, proxy: ApiProxySettings, *, wanted: EndpointSpec, targets: Iterable[TargetGrant]
) -> ApiAddress:
    """Return the address of a tenant's API by the API proxy.

    The server name of the kubeconfig is also the SNI, which the proxy needs. Pods in other clusters
    cannot send another name than the one that they dial. With such pods the host name is dialed.
    """
    port = wanted.port or proxy.port
    if not proxy.address or any(each.name != HOME for each in targets):
        return ApiAddress(server=build_url(host, port))
    return ApiAddress(server=build_url(proxy.address, port), server_name=host)


def find_service_address(service: EndpointObject) -> str:
    """Return the IP address and port of a Service inside the super cluster. Empty: none."""
    spec = service["spec"]
    return hosts.build_address(spec.get("clusterIP") or "", spec["ports"][0]["port"])


def find_dialed_host(external: ApiAddress | None, targets: Iterable[TargetGrant]) -> str:
    """Return the host that pods in other clusters dial. Empty if such pods are impossible."""
    if external is None or all(each.name == HOME for each in targets):
        return ""
    return urlsplit(external.server).hostname or ""


def list_node_addresses(nodes: Iterable[EndpointObject]) -> list[str]:
    """Return one address of each node, ready nodes first: the external one where it has one."""
    found: list[str] = []
    for node in sorted(
        nodes, key=lambda each: (not _is_ready(each), str(each["metadata"]["name"]))
    ):
        listed = (node.get("status") or {}).get("addresses") or ()
        by_type = {entry["type"]: entry["address"] for entry in reversed(list(listed))}
        address = by_type.get("ExternalIP") or by_type.get("InternalIP")
        if address:
            found.append(address)
    return found


def build_url(host: str, port: int) -> str:
    """Return the URL of an API. IPv6 addresses are bracketed, names never are."""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _is_ready(node: EndpointObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    is_leaving = "deletionTimestamp" in node["metadata"]
    return not is_leaving and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
