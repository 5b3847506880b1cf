"""NetworkPolicies of a root namespace, which separate control planes from other tenants' pods.

Pure. Owns the peers of each component (docs/adr/0031). Must not know which policies exist.

Hazard: NetworkPolicies only add up, and each of them is needed. Without a policy that selects all
pods, the components that no other policy names are open to every pod of the super cluster.

Hazard: the port of the API server must stay open to clients outside of the super cluster, who
arrive through a node port or a load balancer. TLS and its certificates protect it there. It is
closed to them only for a tenant that they reach by the API proxy.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeio import Object
from tenancy import addresses, wellknown
from tenancy.addresses import IPNetwork
from tenancy.ownership import Tenant
from vcmanager.plan import service_cidrs

Selector = Mapping[str, Any]

ETCD, API_SERVER, DNS, METRICS = "etcd", "apiserver", "coredns", "metrics-server"
ETCD_PORTS = (2379, 2380)
ETCD_CLIENT_PORT, ETCD_PEER_PORT, ETCD_METRICS_PORT = 2379, 2380, 2381
DNS_PORT = 1053
"""Port of CoreDNS in its pods."""
_SNAPSHOT = "snapshot"
"""Label of the pods of Jobs with snapshots, and name of their policy."""
_BUCKET_PORT = 443
"""Port of S3 servers at public addresses. `egress` has the others."""
_API_CLIENTS = (wellknown.MANAGER, wellknown.SYNCER, wellknown.API_PROXY)
"""Components that call tenants' API servers."""
_ALL_NETWORKS = tuple(map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperNetworks:
    """Networks of the super cluster, as far as they are known."""

    nodes: tuple[IPNetwork, ...] = ()
    pods: tuple[IPNetwork, ...] = ()
    services: tuple[IPNetwork, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInput:
    """All inputs of the policies of a root namespace."""

    tenant: Tenant
    selectors: Mapping[str, Selector]
    """Selector of the pods of each component that exists."""
    api_port: int | str
    """Port of the API server in its pods, or its name."""
    has_known_ports: bool
    """Whether etcd listens on the usual ports. A bundle may have others."""
    components_namespace: str
    """Namespace of vc-manager, the syncer and the node agents."""
    networks: SuperNetworks
    is_behind_proxy: bool = False
    """Whether clients outside of the tenant reach the API server by the API proxy only."""
    scrapers: tuple[Mapping[str, Any], ...] = ()
    """Peers that may read the metrics of etcd, which have no authentication."""
    egress: tuple[IPNetwork, ...] = ()
    """Further networks that API servers and snapshots may connect to."""


def read_super_networks(
    nodes: Iterable[Object], services: Iterable[IPNetwork], listed: Iterable[IPNetwork] = ()
) -> SuperNetworks:
    """Return the networks of the super cluster, by its nodes.

    `listed` are `network.superRanges` of the TenantPolicy. All of their addresses but those of
    nodes count as pods.
    """
    found: list[IPNetwork] = []
    pods = list(listed)
    for node in nodes:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        pods += addresses.parse_networks(spec.get("podCIDRs") or [spec.get("podCIDR") or ""])
        found += addresses.parse_networks(
            each.get("address") or "" for each in status.get("addresses") or ()
        )
    return SuperNetworks(
        nodes=addresses.collapse_networks(found),
        pods=addresses.collapse_networks(pods),
        services=addresses.collapse_networks(services),
    )


def build_network_policies(wish: PolicyInput) -> list[Object]:
    """Return the NetworkPolicies of a root namespace."""
    root: list[Object] = [{"podSelector": {}}]
    own: list[Object] = [{"namespaceSelector": _select_tenant(wish.tenant)}]
    found = [
        _build_policy(
            wish,
            "isolation",
            {},
            ingress=[],
            egress=[{"to": root}, {"ports": _list_ports(addresses.DNS_PORTS, "UDP", "TCP")}],
        )
    ]
    ports = {"ports": _list_ports(ETCD_PORTS, "TCP")} if wish.has_known_ports else {}
    parts: dict[str, dict[str, list[Object]]] = {
        ETCD: {"ingress": [{"from": root, **ports}, *_build_etcd_rules(wish)]},
        API_SERVER: {
            "ingress": [
                {
                    "from": [*own, *_build_outside_peers(wish)],
                    "ports": _list_ports((wish.api_port,), "TCP"),
                }
            ],
            "egress": [
                {"to": own},
                _build_agents_rule(wish),
                {"to": _build_world_peers(wish)},
            ],
        },
        DNS: {"ingress": [{"from": own, "ports": _list_ports((DNS_PORT,), "UDP", "TCP")}]},
        METRICS: {
            "ingress": [{"from": own, "ports": _list_ports((service_cidrs.METRICS_PORT,), "TCP")}],
            "egress": [_build_agents_rule(wish)],
        },
    }
    if wish.has_known_ports:  # snapshots are saved in the short form only
        labels = {wellknown.COMPONENT: _SNAPSHOT, wellknown.USES_BUCKET: "true"}
        egress = _build_bucket_rules(wish)
        found.append(_build_policy(wish, _SNAPSHOT, {"matchLabels": labels}, egress=egress))
    for component, rules in parts.items():
        selector = wish.selectors.get(component)
        if selector is not None:
            found.append(_build_policy(wish, component, selector, **rules))
    return found


def _build_policy(
    wish: PolicyInput,
    name: str,
    selector: Selector,
    *,
    ingress: list[Object] | None = None,
    egress: list[Object] | None = None,
) -> Object:
    rules = {"Ingress": ingress, "Egress": egress}
    spec: Object = {
        "podSelector": dict(selector),
        "policyTypes": [each for each, found in rules.items() if found is not None],
        # An empty list is kept. Otherwise an added rule in the live policy would not be noticed.
        **{each.lower(): found for each, found in rules.items() if found is not None},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": wish.tenant.root},
        "spec": spec,
    }


def _select_tenant(tenant: Tenant) -> Object:
    """Return the selector of the tenant's namespaces, the root namespace included."""
    return {"matchLabels": {wellknown.VC_UID: tenant.uid}}


def _build_outside_peers(wish: PolicyInput) -> list[Object]:
    """Return the peers of the API server outside of the tenant.

    These are pods of namespaces without a tenant, such as the syncer, and every address that no pod
    has: nodes, load balancers and clients. Behind the API proxy they are only the proxy, the syncer
    and vc-manager.
    """
    if wish.is_behind_proxy:
        return [_select_components(wish, *_API_CLIENTS)]
    no_tenant = {"matchExpressions": [{"key": wellknown.VC_UID, "operator": "DoesNotExist"}]}
    pods = wish.networks.pods
    nodes = [net for net in wish.networks.nodes if any(net.overlaps(each) for each in pods)]
    return [{"namespaceSelector": no_tenant}, *_build_blocks(pods), *_build_peers(nodes)]


def _build_etcd_rules(wish: PolicyInput) -> list[Object]:
    """Return the rules of etcd for vc-manager, which has a client certificate, and for scrapers."""
    manager = {
        "namespaceSelector": {"matchLabels": {wellknown.NAMESPACE_NAME: wish.components_namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": wellknown.MANAGER}},
    }
    found: list[Object] = []
    if wish.has_known_ports:
        found.append({"from": [manager], "ports": _list_ports((ETCD_CLIENT_PORT,), "TCP")})
        if wish.scrapers:
            scrapers = [dict(each) for each in wish.scrapers]
            found.append({"from": scrapers, "ports": _list_ports((ETCD_METRICS_PORT,), "TCP")})
    return found


def _build_agents_rule(wish: PolicyInput) -> Object:
    peer = _select_components(wish, wellknown.AGENT, wellknown.TARGET_AGENT)
    return {"to": [peer], "ports": _list_ports((wellknown.AGENT_PORT,), "TCP")}


def _select_components(wish: PolicyInput, *components: str) -> Object:
    """Return the peer for the pods of some components."""
    named = {"key": "app.kubernetes.io/name", "operator": "In", "values": list(components)}
    return {
        "namespaceSelector": {"matchLabels": {wellknown.NAMESPACE_NAME: wish.components_namespace}},
        "podSelector": {"matchExpressions": [named]},
    }


def _build_world_peers(wish: PolicyInput) -> list[Object]:
    """Return the peers for public addresses that are not the super cluster's, and `egress`."""
    return [*_build_public_peers(wish), *_build_further_peers(wish)]


def _build_bucket_rules(wish: PolicyInput) -> list[Object]:
    """Return the rules of snapshots in a bucket. A NetworkPolicy cannot name a server."""
    public: Object = {
        "to": _build_public_peers(wish),
        "ports": _list_ports((_BUCKET_PORT,), "TCP"),
    }
    further = _build_further_peers(wish)
    return [public, *([{"to": further}] if further else [])]


def _build_further_peers(wish: PolicyInput) -> list[Object]:
    return _build_peers(wish.egress)


def _build_public_peers(wish: PolicyInput) -> list[Object]:
    networks = wish.networks
    taken: list[IPNetwork] = [
        *networks.nodes,
        *networks.pods,
        *networks.services,
        *addresses.METADATA_NETWORKS,
        *addresses.PRIVATE_NETWORKS,
    ]
    known = (*networks.nodes, *networks.pods, *networks.services)
    taken += addresses.list_nat64_networks(known)
    return _build_blocks(taken)


def _build_peers(networks: Iterable[IPNetwork]) -> list[Object]:
    return [{"ipBlock": {"cidr": str(net)}} for net in networks]


def _build_blocks(taken: Iterable[IPNetwork]) -> list[Object]:
    """Return the peers for every address outside of these networks."""
    left_out = addresses.collapse_networks(taken)
    blocks: list[Object] = []
    for whole in _ALL_NETWORKS:
        inner = [str(net) for net in left_out if net.version == whole.version]
        blocks.append({"ipBlock": {"cidr": str(whole), **({"except": inner} if inner else {})}})
    return blocks


def _list_ports(ports: Sequence[int | str], *protocols: str) -> list[Object]:
    return [{"port": port, "protocol": name} for port in ports for name in protocols]


def parse_egress(text: str) -> tuple[IPNetwork, ...]:
    """Return the networks of a comma-separated list. Raises ValueError."""
    return tuple(
        ipaddress.ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip()
    )
