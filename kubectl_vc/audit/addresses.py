"""Addresses of the targets, read from objects of the super cluster. Pure.

Hazard: an address must come from the super cluster's objects and not from the tenant's. A tenant
that could choose the addresses would pass each probe.

Hazard: all addresses of a pod, Service or node must be listed, and not only the first. A network
plugin may enforce policies for one IP family only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubectl_vc.audit.probes import (
    API_PORT,
    ETCD_CLIENT_PORT,
    ETCD_PORTS,
    METADATA_ADDRESSES,
    Place,
    Target,
)

Items = Sequence[Mapping[str, Any]]
NodesByName = Mapping[str, Mapping[str, Any]]
_AGENT_PORT_NAME = "kubelet"
"""Name of the port of vn-agent that tenants' API servers use."""
_KUBELET_PORT = 10250
_DNS_PORT = 53
"""Port of a DNS Service. Its other ports serve metrics."""
_API_SERVICE_PORTS = (443, API_PORT)
_AUDIT_SERVERS = (Target.DECOY_POD, Target.DECOY_SERVICE)
"""Targets behind the audit's own server, which listens at each address of its pod."""


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """One TCP address of a target."""

    target: Target
    host: str
    port: int
    node: str = ""
    """Node that the address is on. Empty for an address of no particular node."""
    owner: str = ""
    """The object with the address, for people."""
    is_optional: bool = False
    """Whether the server may not listen at it. It is a further address of another IP family."""

    @property
    def family(self) -> int:
        """The IP family: 4 or 6."""
        return 6 if ":" in self.host else 4

    @property
    def address(self) -> str:
        """The address as `host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def describe(self) -> str:
        """Return target, object and address for the report."""
        owner = f" {self.owner}" if self.owner else ""
        return f"{self.target}{owner} {self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantObjects:
    """Objects of one tenant in the super cluster."""

    root_pods: Items
    root_services: Items
    server_pod: Mapping[str, Any]
    """The twin of the pod that serves for the audit."""
    server_services: Items
    """The twins of the Services in front of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperObjects:
    """Objects of the super cluster itself."""

    nodes: Items
    component_pods: Items
    api_services: Items
    """The Service `kubernetes`."""
    api_slices: Items
    """Its EndpointSlices."""
    dns_services: Items = ()
    """The Services of its DNS."""


def find_endpoints(
    own: TenantObjects, decoy: TenantObjects, super_cluster: SuperObjects
) -> list[TargetAddress]:
    """Return the addresses of all targets, each once."""
    nodes = _nodes_in_use(own, decoy, super_cluster)
    found = [
        *_find_own(own),
        *_find_decoy(decoy, nodes),
        *_find_components(super_cluster.component_pods, nodes),
        *_find_super_api(super_cluster),
        *_of_services(Target.SUPER_DNS, super_cluster.dns_services),
        *_find_kubelets(nodes),
        *(TargetAddress(Target.METADATA, host, port) for host, port in METADATA_ADDRESSES),
    ]
    return list(dict.fromkeys(found))


def find_source_families(own: TenantObjects) -> Mapping[Place, frozenset[int]]:
    """Return the IP families, 4 and 6, of the places from which the tenant connects."""
    api_pods = [pod for pod in own.root_pods if API_PORT in {port for _, port in _list_ports(pod)}]
    return {
        Place.TENANT_POD: _list_families([own.server_pod]),
        Place.TENANT_API: _list_families(api_pods),
    }


def _nodes_in_use(
    own: TenantObjects, decoy: TenantObjects, super_cluster: SuperObjects
) -> dict[str, Mapping[str, Any]]:
    """Return the nodes with pods of the two tenants, by name. A large cluster has many others."""
    pods = [*own.root_pods, own.server_pod, *decoy.root_pods, decoy.server_pod]
    busy = {_get_node(pod) for pod in pods}
    return {
        each["metadata"]["name"]: each
        for each in super_cluster.nodes
        if each["metadata"]["name"] in busy
    }


def _find_own(own: TenantObjects) -> Iterator[TargetAddress]:
    yield from _of_services(Target.OWN_POD, own.server_services)
    for pod in own.root_pods:
        ports = {port for _, port in _list_ports(pod)}
        if API_PORT in ports:
            yield from _of_pod(Target.OWN_API, pod, [API_PORT])
        if ETCD_CLIENT_PORT in ports:
            yield from _of_pod(Target.OWN_ETCD, pod, [ETCD_CLIENT_PORT])
            yield from _of_pod(Target.OWN_ETCD_METRICS, pod, ETCD_PORTS)


def _find_decoy(
    decoy: TenantObjects, nodes: Mapping[str, Mapping[str, Any]]
) -> Iterator[TargetAddress]:
    yield from _of_pod(
        Target.DECOY_POD, decoy.server_pod, [port for _, port in _list_ports(decoy.server_pod)]
    )
    yield from _of_services(Target.DECOY_SERVICE, decoy.server_services)
    node = nodes.get(_get_node(decoy.server_pod))
    for service in decoy.server_services:
        for port in service["spec"].get("ports") or ():
            if node is not None and port.get("nodePort"):
                name = node["metadata"]["name"]
                for host, is_optional in _list_node_ips(node):
                    yield TargetAddress(
                        Target.DECOY_NODE_PORT, host, port["nodePort"], name, name, is_optional
                    )
    for pod in decoy.root_pods:
        ports = {port for _, port in _list_ports(pod)}
        if API_PORT in ports:
            yield from _of_pod(Target.DECOY_API, pod, [API_PORT])
            ports -= {API_PORT}
        further = ETCD_PORTS if ETCD_CLIENT_PORT in ports else ()
        yield from _of_pod(Target.DECOY_CONTROL_PLANE, pod, sorted({*ports, *further}))
    api_services = [
        service
        for service in decoy.root_services
        if any(port["port"] in _API_SERVICE_PORTS for port in service["spec"].get("ports") or ())
    ]
    yield from _of_services(Target.DECOY_API_SERVICE, api_services)


def _find_components(
    pods: Items, nodes: Mapping[str, Mapping[str, Any]]
) -> Iterator[TargetAddress]:
    """Yield the ports of one pod of each workload, on a node in use if there is one."""
    chosen: dict[str, Mapping[str, Any]] = {}
    for pod in sorted(pods, key=lambda pod: _get_node(pod) not in nodes):
        owners = pod["metadata"].get("ownerReferences") or [{"uid": pod["metadata"]["name"]}]
        if list_pod_ips(pod):
            chosen.setdefault(owners[0]["uid"], pod)
    for pod in chosen.values():
        for name, port in _list_ports(pod):
            target = Target.AGENT if name == _AGENT_PORT_NAME else Target.COMPONENT
            yield from _of_pod(target, pod, [port])


def _find_super_api(super_cluster: SuperObjects) -> Iterator[TargetAddress]:
    yield from _of_services(Target.SUPER_API, super_cluster.api_services)
    for found in super_cluster.api_slices:
        for port in found.get("ports") or ():
            for each in found.get("endpoints") or ():
                for host in each.get("addresses") or ():
                    yield TargetAddress(Target.SUPER_API, host, port["port"])


def _find_kubelets(nodes: NodesByName) -> Iterator[TargetAddress]:
    for name, node in nodes.items():
        endpoints = (node.get("status") or {}).get("daemonEndpoints") or {}
        port = (endpoints.get("kubeletEndpoint") or {}).get("Port") or _KUBELET_PORT
        for host, is_optional in _list_node_ips(node):
            yield TargetAddress(Target.KUBELET, host, port, name, name, is_optional)


def _of_pod(
    target: Target, pod: Mapping[str, Any], ports: Iterable[int]
) -> Iterator[TargetAddress]:
    for host, is_further in _mark_further(list_pod_ips(pod)):
        is_optional = is_further and target not in _AUDIT_SERVERS
        for port in ports:
            yield TargetAddress(
                target, host, port, _get_node(pod), pod["metadata"]["name"], is_optional
            )


def _of_services(target: Target, services: Items) -> Iterator[TargetAddress]:
    for service in services:
        for host, is_further in _mark_further(list_cluster_ips(service)):
            for port in service["spec"].get("ports") or ():
                is_dns = target is not Target.SUPER_DNS or port["port"] == _DNS_PORT
                if port.get("protocol", "TCP") == "TCP" and is_dns:
                    yield TargetAddress(
                        target,
                        host,
                        port["port"],
                        owner=service["metadata"]["name"],
                        is_optional=is_further and target not in _AUDIT_SERVERS,
                    )


def _list_ports(pod: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return name and number of each TCP port that a pod declares."""
    return [
        (port.get("name", ""), port["containerPort"])
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("protocol", "TCP") == "TCP"
    ]


def list_pod_ips(pod: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a pod, one of each IP family."""
    status = pod.get("status") or {}
    listed = [str(each.get("ip") or "") for each in status.get("podIPs") or ()]
    return _list_once([str(status.get("podIP") or ""), *listed])


def list_cluster_ips(service: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a Service, one of each IP family."""
    spec = service["spec"]
    found = [spec.get("clusterIP"), *(spec.get("clusterIPs") or ())]
    return _list_once([str(each) for each in found if each and each != "None"])


def _list_families(pods: Items) -> frozenset[int]:
    return frozenset(6 if ":" in host else 4 for pod in pods for host in list_pod_ips(pod))


def _list_once(hosts: Iterable[str]) -> list[str]:
    return [host for host in dict.fromkeys(hosts) if host]


def _mark_further(hosts: Sequence[str]) -> list[tuple[str, bool]]:
    """Return each address, and whether it is of another IP family than the first one."""
    return [(host, (":" in host) != (":" in hosts[0])) for host in hosts]


def _get_node(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _list_node_ips(node: Mapping[str, Any]) -> list[tuple[str, bool]]:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return _mark_further([each["address"] for each in addresses if each["type"] == "InternalIP"])
