"""Indexes of one tenant's addresses, node ports and network policies in one super cluster.

Must not build an object. Hazard: an index must have the objects that the caches had before the
session subscribed. Otherwise a policy leaves out addresses of the tenant's own pods.
"""

from collections.abc import Mapping

import structlog

from kubeio.cache.store import Store
from syncer.clusters.super_cluster import SuperCluster
from syncer.model.super_cidrs import CidrAddress, CidrSet
from syncer.rules.network.indexes.node_ports import NodePorts
from syncer.rules.network.indexes.pod_addresses import PodAddresses
from syncer.rules.network.policy_selectors import PolicySelectors

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class NetworkIndexes:
    """Lookups of network rules about one tenant. Handlers of events keep them up to date."""

    def __init__(self, super_cluster: SuperCluster, *, uses_pod_ranges: bool = True) -> None:
        """The indexes are empty until `fill`.

        With `uses_pod_ranges` False, pods of the tenant may have addresses of networks of its own.
        They are no sign that the ranges of the super cluster are incomplete.
        """
        self.pod_addresses = PodAddresses(self._observe_pod if uses_pod_ranges else None)
        self.node_ports = NodePorts()
        self.policy_selectors = PolicySelectors()
        self._super_cluster = super_cluster

    def fill(self, stores: Mapping[str, Store], vc_uid: str) -> None:
        """Add the objects that the caches had before the session subscribed.

        `stores` are the tenant's caches.
        """
        below = self._super_cluster
        for entry in below.list_owned("Pod", vc_uid):
            self.pod_addresses.set_pod(entry.key, entry)
        if "Service" in below.stores:  # a target has none
            for entry in below.list_owned("Service", vc_uid):
                self.node_ports.set_service(entry.key, entry)
        for entry in stores["EndpointSlice"].list():
            self.pod_addresses.set_slice(entry.key, entry)
        for entry in stores["NetworkPolicy"].list():
            self.policy_selectors.set(None, entry)

    def _observe_pod(self, node: str, address: CidrAddress) -> None:
        """Report a pod that shows that the ranges of the super cluster are incomplete."""
        if self._super_cluster.cidr_tracker.observe_pod(node, address):
            _log.warning(
                "super_cidrs.incomplete",
                super_cluster=self._super_cluster.name,
                node=node,
                address=str(address),
                action="List the ranges of pods in spec.network.superRanges of the TenantPolicies.",
            )

    def is_own_pod(self, address: CidrAddress) -> bool:
        """Return whether a pod of the tenant has an address. A pod of the host has its node's."""
        nodes = self._super_cluster.cidr_tracker.get_current().nodes
        return self.pod_addresses.has(address) and not CidrSet(nodes).contains(address)
