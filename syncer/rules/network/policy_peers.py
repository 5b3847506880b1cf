"""Peers and networks that network policies of the super cluster share.

Pure. Owns the pods and addresses that stand for a tenant, for its control plane and for the world
outside of the super cluster. Must not know single policies.

Hazard: no peer may include a pod of another tenant. Both the default policies and the tenant's own
policies consist of these peers, and network policies only add up.
"""

import copy
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from urllib.parse import urlsplit

from kubeio import Object
from syncer.model.super_cidrs import CidrNetwork, CidrSet, SuperCidrs
from syncer.model.tenant_view import TenantView
from syncer.rules.network import ip_blocks
from syncer.rules.network.ip_blocks import IpBlock
from tenancy import addresses, wellknown


class PolicyDirection(Enum):
    """List of rules of one direction: its policy type, its field, and the field of its peers."""

    INGRESS = ("Ingress", "ingress", "from")
    EGRESS = ("Egress", "egress", "to")

    @property
    def policy_type(self) -> str:
        """Return the policy type."""
        return self.value[0]

    @property
    def rules_field(self) -> str:
        """Return the name of the field with the rules."""
        return self.value[1]

    @property
    def peers_field(self) -> str:
        """Return the name of the field with the peers of a rule."""
        return self.value[2]


_CONTROL_PLANE_PEERS = {
    PolicyDirection.INGRESS: ("apiserver",),  # for webhooks, and Services by proxy
    PolicyDirection.EGRESS: ("apiserver", "coredns"),
}
"""Components of the tenant's control plane that a policy never isolates its pods from."""
MAX_REMEMBERED_RANGES = 8
"""Sets of ranges whose results are kept: one for each super cluster and policy of its tenants.

All namespaces of all tenants have the same ones, and each needs two policies of them. The results
for 5,000 nodes take 1 MB. A tenant cannot choose any part of them.
"""


def list_pod_networks(view: TenantView, ranges: SuperCidrs) -> tuple[CidrNetwork, ...]:
    """Return the known networks in which pods of any tenant have their addresses."""
    return _join_pod_networks(ranges, view.policy.network.super_ranges)


def build_possible_pod_networks(view: TenantView, ranges: SuperCidrs) -> CidrSet:
    """Return the networks in which pods of any tenant may have their addresses."""
    return _build_possible_pod_networks(ranges, view.policy.network.super_ranges)


@lru_cache(maxsize=MAX_REMEMBERED_RANGES)
def _build_possible_pod_networks(ranges: SuperCidrs, super_ranges: tuple[str, ...]) -> CidrSet:
    known = _join_pod_networks(ranges, super_ranges)
    return CidrSet((*known, *_list_suspect_networks(ranges, known)))


def _list_suspect_networks(ranges: SuperCidrs, known: tuple[CidrNetwork, ...]) -> list[CidrNetwork]:
    """Return the networks that may have pods, because the known networks are none or incomplete.

    They are the private networks of a family of addresses. If a pod has a public address that no
    known network has, they are the whole family.
    """
    found: list[CidrNetwork] = []
    known_set, private = CidrSet(known), CidrSet(addresses.PRIVATE_NETWORKS)
    for whole in ip_blocks.ALL_ADDRESSES:
        strays = [
            net.network_address
            for net in ranges.stray_pods
            if net.version == whole.version and not known_set.contains(net.network_address)
        ]
        if any(not private.contains(address) for address in strays):
            found.append(whole)
        elif strays or not known_set.count_overlapping(whole):
            found += private.list_overlapping(whole)
    return found


def _join_pod_networks(
    ranges: SuperCidrs, super_ranges: tuple[str, ...]
) -> tuple[CidrNetwork, ...]:
    return (*ranges.pods, *addresses.parse_networks(super_ranges))


def build_subtracted(view: TenantView, ranges: SuperCidrs) -> Mapping[PolicyDirection, CidrSet]:
    """Return the networks that blocks lose, by direction.

    For ingress the node addresses stay, because traffic through a node port or a load balancer has
    the address of the node that it passed. For egress, isolation also excludes the networks that
    may have pods while the ranges of pods are unknown or incomplete.
    """
    network = view.policy.network
    return _build_subtracted(
        ranges, network.super_ranges, is_enforced=network.isolation == "Enforced"
    )


@lru_cache(maxsize=MAX_REMEMBERED_RANGES)
def _build_subtracted(
    ranges: SuperCidrs, super_ranges: tuple[str, ...], *, is_enforced: bool
) -> Mapping[PolicyDirection, CidrSet]:
    pods = _join_pod_networks(ranges, super_ranges)
    into = (*pods, *ranges.services)
    out_of = [
        *into,
        *ranges.nodes,
        *addresses.METADATA_NETWORKS,
        *(_list_suspect_networks(ranges, pods) if is_enforced else ()),
    ]
    return {
        PolicyDirection.INGRESS: CidrSet(into),
        PolicyDirection.EGRESS: CidrSet(
            (*out_of, *addresses.list_nat64_networks((*into, *ranges.nodes)))
        ),
    }


def build_world_peers(taken: CidrSet) -> list[Object]:
    """Return the peers for every address that is not taken."""
    return [{"ipBlock": copy.deepcopy(block)} for block in _build_world_blocks(taken)]


@lru_cache(maxsize=MAX_REMEMBERED_RANGES * len(PolicyDirection))
def _build_world_blocks(taken: CidrSet) -> tuple[Object, ...]:
    blocks = (IpBlock(net).subtract(taken) for net in ip_blocks.ALL_ADDRESSES)
    return tuple(block for block in blocks if block is not None)


def select_own_namespaces(view: TenantView) -> Object:
    """Return the selector of all super namespaces of the tenant. It excludes the control plane."""
    return {
        "matchLabels": {wellknown.VC_UID: view.tenant.uid},
        "matchExpressions": [{"key": wellknown.NAMESPACE, "operator": "Exists"}],
    }


def select_other_namespaces() -> Object:
    """Return the selector of the namespaces that belong to no tenant."""
    return {"matchExpressions": [{"key": wellknown.VC_UID, "operator": "DoesNotExist"}]}


def build_all_pods_peers(direction: PolicyDirection, view: TenantView) -> list[Object]:
    """Return the peers for all pods that a plain cluster would have.

    For ingress they include the super cluster's own pods, because its ingress controllers deliver
    traffic from outside. They never include pods of another tenant.
    """
    own = {"namespaceSelector": select_own_namespaces(view)}
    if direction is PolicyDirection.EGRESS:
        return [own]
    return [own, {"namespaceSelector": select_other_namespaces()}]


def build_control_plane_peers(direction: PolicyDirection, view: TenantView) -> list[Object]:
    """Return the peers for the tenant's API server and DNS.

    In a target, where the root namespace does not exist, they include the known addresses.
    """
    components = list(_CONTROL_PLANE_PEERS[direction])
    pods = {
        "namespaceSelector": {
            "matchLabels": {
                wellknown.NAMESPACE_NAME: view.tenant.root,
                wellknown.VC_UID: view.tenant.uid,
            }
        },
        "podSelector": {
            "matchExpressions": [
                {"key": wellknown.COMPONENT, "operator": "In", "values": components}
            ]
        },
    }
    if direction is PolicyDirection.INGRESS:
        return [pods]
    known = addresses.parse_networks(_list_control_plane_addresses(view))
    return [pods, *build_network_peers(dict.fromkeys(known))]


def _list_control_plane_addresses(view: TenantView) -> Iterable[str]:
    if view.get_target_network is None:
        return ()
    network = view.get_target_network()
    try:
        host = urlsplit(network.endpoint).hostname or ""
    except ValueError:
        host = ""
    return (host, *network.resolvers)


def build_network_peers(found: Iterable[CidrNetwork]) -> list[Object]:
    """Return a peer for each network."""
    return [{"ipBlock": {"cidr": str(net)}} for net in found]
