"""Default network policies of a super namespace, which separate tenants.

Pure. Owns the three policies of a namespace (docs/adr/0031). `vc-isolation` selects all pods and
allows only the control plane, so no pod is ever open to everything. The other two, one for each
direction, allow the tenant, the world and ingress controllers. They select the pods that no policy
of the tenant selects in that direction, by a label of the super pod. Must not know clients.

Hazard: network policies only add up. A default policy must leave out each pod that a policy of the
tenant selects. Otherwise the tenant's own denials have no effect.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.super_cidrs import CidrNetwork, CidrSet
from syncer.model.tenant_view import TenantView
from syncer.rules.network import ip_blocks, policy_peers
from syncer.rules.network.policy_peers import PolicyDirection
from tenancy import addresses, names, ownership, wellknown

POLICED_LABELS = {
    PolicyDirection.INGRESS: wellknown.POLICED_INGRESS,
    PolicyDirection.EGRESS: wellknown.POLICED_EGRESS,
}
_DIRECTIONS = {
    names.DEFAULT_INGRESS_POLICY: PolicyDirection.INGRESS,
    names.DEFAULT_EGRESS_POLICY: PolicyDirection.EGRESS,
}
_DNS_PORTS = [
    {"port": port, "protocol": protocol}
    for port in addresses.DNS_PORTS
    for protocol in ("UDP", "TCP")
]
_LINK_LOCAL_NETWORKS = addresses.parse_networks(("169.254.0.0/16", "fe80::/10"))
"""Networks of a resolver that each node runs for itself."""


def is_enforced(view: TenantView) -> bool:
    """Return whether super namespaces have default policies."""
    return view.policy.network.isolation == "Enforced"


def build_default_policies(namespace: Entry, view: TenantView) -> list[Object]:
    """Return the default policies of a tenant namespace."""
    return [build_default_policy(name, namespace, view) for name in names.DEFAULT_POLICIES]


def build_default_policy(name: str, namespace: Entry, view: TenantView) -> Object:
    """Return the default policy of a name for a tenant namespace, which it records as its owner."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": name,
            "namespace": view.get_super_namespace(namespace.name),
            "labels": ownership.build_owner_labels(view.tenant, namespace.name),
            "annotations": {
                **ownership.build_owner_annotations(view.tenant, namespace.name, namespace.uid),
                # No key is the tenant's, so keys that a webhook adds are not removed.
                wellknown.SYNCED_KEYS: object_meta.encode_keys((), ()),
            },
        },
        "spec": _build_spec(name, view),
    }


def _build_spec(name: str, view: TenantView) -> Object:
    direction = _DIRECTIONS.get(name)
    if direction is None:
        return {
            "podSelector": {},
            "policyTypes": [each.policy_type for each in PolicyDirection],
            **{
                each.rules_field: [
                    {each.peers_field: policy_peers.build_control_plane_peers(each, view)}
                ]
                for each in PolicyDirection
            },
        }
    unpoliced = {"key": POLICED_LABELS[direction], "operator": "DoesNotExist"}
    return {
        "podSelector": {"matchExpressions": [unpoliced]},
        "policyTypes": [direction.policy_type],
        direction.rules_field: _build_rules(direction, view),
    }


def _build_rules(direction: PolicyDirection, view: TenantView) -> list[Object]:
    taken = policy_peers.build_subtracted(view, view.get_super_cidrs())[direction]
    rules = [
        {
            direction.peers_field: [
                *policy_peers.build_all_pods_peers(direction, view),
                *policy_peers.build_world_peers(taken),
            ]
        }
    ]
    # Only the policy decides. A field of the VirtualCluster must not open the super cluster's DNS.
    if direction is PolicyDirection.EGRESS and view.policy.network.node_dns == "Allow":
        rules.append({direction.peers_field: _build_node_dns_peers(view), "ports": _DNS_PORTS})
    if direction is PolicyDirection.EGRESS:
        rules += _build_node_port_rules(direction, view)
    return rules


def _build_node_port_rules(direction: PolicyDirection, view: TenantView) -> list[Object]:
    """Return the rule for the tenant's own node ports on all nodes, if it has any.

    A node port of another node is closed otherwise, although any client outside can reach it.
    """
    ports = view.list_node_ports()
    if not ports:
        return []
    nodes = _list_node_networks(view)
    if not nodes:  # a rule without peers allows every address
        return []
    return [
        {
            direction.peers_field: policy_peers.build_network_peers(nodes),
            "ports": [{"port": port, "protocol": protocol} for protocol, port in ports],
        }
    ]


def _list_node_networks(view: TenantView, *further: CidrNetwork) -> list[CidrNetwork]:
    nodes = CidrSet((*view.get_super_cidrs().nodes, *further))
    return [net for whole in ip_blocks.ALL_ADDRESSES for net in nodes.list_overlapping(whole)]


def _build_node_dns_peers(view: TenantView) -> list[Object]:
    """Return the peers for the resolvers of the super cluster: on nodes, or its own pods."""
    networks = _list_node_networks(view, *_LINK_LOCAL_NETWORKS)
    return [
        {"namespaceSelector": policy_peers.select_other_namespaces()},
        *policy_peers.build_network_peers(networks),
    ]
