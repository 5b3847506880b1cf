"""The default policies and the tenant's own together: the matrix of all pairs of pods."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from syncer.model.super_cidrs import NO_CIDRS, SuperCidrs
from syncer.model.tenant_view import TargetNetwork
from syncer.rules.network import default_policies, network_policies
from syncer.rules.network.policy_selectors import PolicySelectors
from tenancy import addresses
from tenancy.ownership import Tenant
from tenancy.policies import AdmissionMode
from tenancy.specs import DnsMode
from tests.support import policy_matrix
from tests.support.policy_matrix import NetworkHost, NetworkPod, NetworkPort
from tests.support.syncer.tenant_views import (
    NAME,
    OTHER,
    RANGES,
    TENANT,
    entry_of,
    object_of,
    policy,
)
from tests.unit.syncer.rules.network.test_network_policies_matrix import _WORLDS as WORLDS
from tests.unit.syncer.rules.network.test_network_policies_matrix import (
    INFRASTRUCTURE,
    OUTSIDE,
    PART_BLOCKS,
    PORTS,
    WHOLE_BLOCKS,
    PolicyWorld,
    above,
    below,
    of_the_root,
    pairs,
    policies,
    seen,
)

BLOCKS = [*WHOLE_BLOCKS, *PART_BLOCKS]
METADATA = [
    NetworkHost(ip)
    for ip in (
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe", "64:ff9b::a9fe:a9fe"),
        "64:ff9b:1::1",
    )
]
CONTROLLER = NetworkPod(
    ip="10.244.9.9",
    name="ingress-controller",
    namespace="ingress",
    labels={},
    namespace_labels={NAME: "ingress"},
)
SUPER_DNS = NetworkPod(
    ip="10.244.9.10",
    name="coredns",
    namespace="kube-system",
    labels={"k8s-app": "kube-dns"},
    namespace_labels={NAME: "kube-system"},
)
DNS_MODES: tuple[DnsMode, ...] = get_args(DnsMode)
RESOLVERS = ("10.96.0.10",)
CLUSTERS: dict[str, dict[str, Any]] = {
    "home": {},
    "target": {"get_target_network": lambda: TargetNetwork("https://203.0.113.5", RESOLVERS)},
    "target without resolvers": {
        "get_target_network": lambda: TargetNetwork("https://203.0.113.5", ())
    },
}
"""Fields of the view of a tenant in each kind of super cluster."""
EVERYTHING: list[dict[str, Any]] = [
    object_of(
        "NetworkPolicy",
        metadata={"namespace": "web", "name": f"everything-{number}"},
        spec={"podSelector": {}, "ingress": [ingress], "egress": [egress]},
    )
    for number, (ingress, egress) in enumerate(
        [
            ({}, {}),
            ({"from": []}, {"to": []}),
            (
                {"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]},
                {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]},
            ),
            ({"from": [{"namespaceSelector": {}}]}, {"to": [{"namespaceSelector": {}}]}),
        ]
    )
]
DENY_ALL = object_of(
    "NetworkPolicy",
    metadata={"namespace": "web", "name": "deny-all"},
    spec={"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
)
PLAIN: PolicyWorld = {"web": ({}, [{"app": "a"}, {}]), "db": ({}, [{}])}


class IsolatedTenant:
    """The super cluster's state of one tenant: twins of policies, defaults, and labelled pods."""

    def __init__(
        self,
        world: PolicyWorld,
        found: list[dict[str, Any]],
        *,
        tenant: Tenant = TENANT,
        first: int = 0,
        **fields: Any,
    ) -> None:
        self.tenant, self.view = tenant, seen(world, **fields)
        object.__setattr__(self.view, "tenant", tenant)
        self.found = [
            {**each, "metadata": {**each["metadata"], "name": f"p{number}"}}
            for number, each in enumerate(found)
        ]
        self.selectors = PolicySelectors()
        for each in self.found:
            self.selectors.set(None, entry_of(each))
        self.twins = [network_policies.build_network_policy(each, self.view) for each in self.found]
        self.defaults = [
            each
            for space in self.view.stores["Namespace"].list()
            for each in default_policies.build_default_policies(space, self.view)
        ]
        self.own = above(world)
        self.pods = [
            self._label(pod, f"10.244.{first}.{pod.ip.split('.')[-1]}") for pod in self.own
        ]

    @property
    def policies(self) -> list[dict[str, Any]]:
        """Return all policies of the super cluster for the tenant."""
        return [*self.twins, *self.defaults]

    def _label(self, pod: NetworkPod, ip: str) -> NetworkPod:
        twin = below(pod, self.tenant, ip)
        marks = self.selectors.build_labels(pod.namespace, pod.labels)
        return NetworkPod(
            ip=twin.ip,
            name=twin.name,
            namespace=twin.namespace,
            labels={**twin.labels, **marks},
            namespace_labels=twin.namespace_labels,
        )


INCOMPLETE = SuperCidrs(
    pods=addresses.parse_networks(("10.99.0.0/16",)),
    stray_pods=addresses.parse_networks(("10.244.9.9",)),
)
"""Ranges of nodes that a network plugin does not use for its pods."""


@settings(max_examples=60)
@given(
    WORLDS,
    policies(BLOCKS),
    st.sampled_from([RANGES, NO_CIDRS, INCOMPLETE]),
    st.sampled_from(DNS_MODES),
    st.sampled_from(list(CLUSTERS)),
)
@example(PLAIN, [DENY_ALL], RANGES, "managed", "home")
@example(PLAIN, EVERYTHING, RANGES, "tenant", "home")
@example(PLAIN, EVERYTHING, NO_CIDRS, "none", "home")
@example(PLAIN, EVERYTHING, INCOMPLETE, "managed", "home")
@example(PLAIN, [], RANGES, "none", "home")
@example(PLAIN, [], RANGES, "managed", "target without resolvers")
def test_no_policy_reaches_another_tenant_the_super_cluster_or_metadata(
    world: PolicyWorld,
    found: list[dict[str, Any]],
    ranges: SuperCidrs,
    dns: DnsMode,
    cluster: str,
):
    """SEC-40: two tenants of one shape. The cluster's ranges are known, unknown or incomplete."""
    fields = {"ranges": ranges, "dns": dns, **CLUSTERS[cluster]}
    one = IsolatedTenant(world, found, **fields)
    two = IsolatedTenant(world, EVERYTHING, tenant=OTHER, first=1, **fields)
    rules = [*one.policies, *two.policies]
    others = [of_the_root(name, OTHER, "10.244.2.2") for name in ("apiserver", "coredns", "etcd")]
    known = [*INFRASTRUCTURE, NetworkHost("64:ff9b::192.0.2.7")] if ranges is RANGES else []
    own_etcd = of_the_root("etcd", TENANT, "10.244.3.4")
    hosts = [*METADATA, *known, CONTROLLER, SUPER_DNS, own_etcd]
    for pod in one.pods:
        for port in PORTS:
            for foreign_pod in (*two.pods, *others):
                assert not policy_matrix.allowed(rules, pod, foreign_pod, port), (pod, foreign_pod)
            # Without known ranges, the policies of the root namespace alone hold its pods back.
            for foreign_pod in (*two.pods, *(others if ranges is RANGES else ())):
                assert not policy_matrix.allowed(rules, foreign_pod, pod, port), (foreign_pod, pod)
            for host in hosts:
                assert not policy_matrix.allowed(rules, pod, host, port), (pod, host)


@settings(max_examples=60)
@given(WORLDS, policies(BLOCKS))
@example(PLAIN, [DENY_ALL])
def test_never_wider_than_the_tenants_own_policies(world: PolicyWorld, found: list[dict[str, Any]]):
    """SEC-41: a connection below is one that the tenant\'s own policies allow."""
    tenant = IsolatedTenant(world, found)
    twins = dict(zip([pod.name for pod in tenant.own], tenant.pods, strict=True))
    for source, target in pairs(tenant.own):
        for port in PORTS:
            there = policy_matrix.allowed(
                tenant.policies, twins[source.name], twins[target.name], port
            )
            own = policy_matrix.allowed(tenant.found, source, target, port)
            event(f"allowed: {own}, {there}")
            assert not there or own, (source, target, port)
    for pod in tenant.own:
        for host in OUTSIDE:
            for port in PORTS:
                out = policy_matrix.allowed(tenant.policies, twins[pod.name], host, port)
                assert not out or policy_matrix.allowed(tenant.found, pod, host, port)
                into = policy_matrix.allowed(tenant.policies, host, twins[pod.name], port)
                assert not into or policy_matrix.allowed(tenant.found, host, pod, port)


@settings(max_examples=60)
@given(WORLDS, policies(WHOLE_BLOCKS))
@example(PLAIN, [DENY_ALL])
@example(PLAIN, [])
def test_the_same_matrix_inside_a_tenant_with_default_policies(
    world: PolicyWorld, found: list[dict[str, Any]]
):
    """The defaults deny nothing that the tenant allows to itself, to the world and from it."""
    tenant = IsolatedTenant(world, found)
    twins = dict(zip([pod.name for pod in tenant.own], tenant.pods, strict=True))
    for source, target in pairs(tenant.own):
        for port in PORTS:
            there = policy_matrix.allowed(
                tenant.policies, twins[source.name], twins[target.name], port
            )
            assert there == policy_matrix.allowed(tenant.found, source, target, port)
    for pod in tenant.own:
        for host in OUTSIDE:
            for port in PORTS:
                out = policy_matrix.allowed(tenant.policies, twins[pod.name], host, port)
                assert out == policy_matrix.allowed(tenant.found, pod, host, port)
                into = policy_matrix.allowed(tenant.policies, host, twins[pod.name], port)
                assert into == policy_matrix.allowed(tenant.found, host, pod, port)


@given(WORLDS, policies(BLOCKS))
@example(PLAIN, [DENY_ALL])
@example(PLAIN, [])
def test_each_pod_reaches_its_dns_and_its_api(world: PolicyWorld, found: list[dict[str, Any]]):
    tenant = IsolatedTenant(world, found)
    for pod in tenant.pods:
        for component in ("apiserver", "coredns"):
            host = of_the_root(component, TENANT, "10.244.3.3")
            assert policy_matrix.may(tenant.policies, pod, host, NetworkPort(53, "UDP"), "Egress")
        api = of_the_root("apiserver", TENANT, "10.244.3.3")
        assert policy_matrix.may(tenant.policies, pod, api, NetworkPort(8443), "Ingress")


@given(WORLDS, policies(BLOCKS), policies(BLOCKS))
def test_a_change_of_labels_or_policies_is_never_wider_than_both(
    world: PolicyWorld, before: list[dict[str, Any]], after: list[dict[str, Any]]
):
    """SEC-41: between two states, a pod has the labels of either, and each policy may be there."""
    old, new = IsolatedTenant(world, before), IsolatedTenant(world, after)
    other = IsolatedTenant(world, EVERYTHING, tenant=OTHER, first=1)
    for twins in (old.twins, new.twins, [], [*old.twins, *new.twins]):
        rules = [*twins, *new.defaults, *other.policies]
        for pod in (*old.pods, *new.pods):
            for foreign_pod in other.pods:
                assert not policy_matrix.allowed(rules, pod, foreign_pod, NetworkPort(80))
                assert not policy_matrix.allowed(rules, foreign_pod, pod, NetworkPort(80))


def test_ingress_controllers_reach_pods_and_pods_do_not_reach_them():
    tenant = IsolatedTenant(PLAIN, [])
    for pod in tenant.pods:
        assert policy_matrix.allowed(tenant.policies, CONTROLLER, pod, NetworkPort(80))
        assert not policy_matrix.allowed(tenant.policies, pod, CONTROLLER, NetworkPort(80))


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("dns", DNS_MODES)
@pytest.mark.parametrize("node_dns", get_args(AdmissionMode))
def test_the_resolver_of_the_node_is_reached_where_the_policy_allows_it(
    dns: DnsMode, node_dns: AdmissionMode, cluster: str
):
    """SEC-54: a pod can name any server itself, so only a closed port holds it back."""
    allowing = policy(network={"nodeDns": node_dns})
    tenant = IsolatedTenant(PLAIN, [], dns=dns, policy=allowing, **CLUSTERS[cluster])
    node, local = NetworkHost("192.0.2.7"), NetworkHost("169.254.20.10")
    for pod, host in itertools.product(tenant.pods, (node, local, SUPER_DNS)):
        for number, protocol in itertools.product(addresses.DNS_PORTS, ("UDP", "TCP")):
            port = NetworkPort(number, protocol)
            is_open = policy_matrix.allowed(tenant.policies, pod, host, port)
            assert is_open == (node_dns == "Allow"), (pod, host, port)
        assert not policy_matrix.allowed(tenant.policies, pod, host, NetworkPort(80))


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("dns", DNS_MODES)
def test_each_mode_reaches_the_servers_that_it_needs(dns: DnsMode, cluster: str):
    """The managed server, a server in the tenant's own pods, public ones, those of the target."""
    tenant = IsolatedTenant(PLAIN, [], dns=dns, **CLUSTERS[cluster])
    managed = of_the_root("coredns", TENANT, "10.244.3.3")
    port = NetworkPort(53, "UDP")
    for pod in tenant.pods:
        for host in (managed, *tenant.pods, NetworkHost("8.8.8.8")):
            assert policy_matrix.allowed(tenant.policies, pod, host, port), (pod, host)
        for host in map(NetworkHost, RESOLVERS):
            is_open = policy_matrix.allowed(tenant.policies, pod, host, port)
            assert is_open == (cluster == "target"), (pod, host)


def test_only_the_tenants_own_node_ports_are_open_on_nodes():
    """A node is `192.0.2.7` in the ranges, and has other tenants' node ports, too."""
    for ranges, is_open in ((RANGES, True), (NO_CIDRS, False)):
        view = seen(PLAIN, ranges=ranges)
        object.__setattr__(view, "list_node_ports", lambda: [("TCP", 30080)])
        space = view.stores["Namespace"].list()[0]
        rules = default_policies.build_default_policies(space, view)
        pod = next(
            twin
            for twin in (below(each, TENANT) for each in above(PLAIN))
            if twin.namespace == view.get_super_namespace(space.name)
        )
        node, other = NetworkHost("192.0.2.7"), NetworkHost("10.244.1.1")
        if is_open:
            assert policy_matrix.allowed(rules, pod, node, NetworkPort(30080))
            for port in (NetworkPort(30080, "UDP"), NetworkPort(30081), NetworkPort(10250)):
                assert not policy_matrix.allowed(rules, pod, node, port)
        assert not policy_matrix.allowed(rules, pod, other, NetworkPort(30080))
