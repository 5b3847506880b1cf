"""Network policies mean the same in the super cluster: the matrix of all pairs of pods."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from syncer.model import object_meta
from syncer.model.super_cidrs import NO_CIDRS
from syncer.model.tenant_view import TenantView
from syncer.rules.network import network_policies
from tenancy import names
from tenancy.ownership import Tenant
from tests.support import policy_matrix
from tests.support.policy_matrix import NetworkHost, NetworkPod, NetworkPort
from tests.support.syncer.tenant_views import (
    NAME,
    OTHER,
    TENANT,
    as_live,
    below_labels,
    network_view,
    object_of,
)

OUTSIDE = [NetworkHost("198.51.100.7"), NetworkHost("198.51.100.200"), NetworkHost("8.8.8.8")]
INFRASTRUCTURE = [NetworkHost("192.0.2.7"), NetworkHost("10.96.0.1"), NetworkHost("10.96.8.1")]
PORTS = [NetworkPort(80), NetworkPort(443), NetworkPort(53, "UDP")]

_VALUES = st.sampled_from(["a", "b"])
_LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), _VALUES, max_size=2)
_EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(_VALUES, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["Exists", "DoesNotExist"]),
        }
    ),
)
_SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": _LABELS, "matchExpressions": st.lists(_EXPRESSIONS, max_size=2)}
)
_NAMESPACES = st.one_of(
    _SELECTORS, st.sampled_from([{"matchLabels": {NAME: "web"}}, {"matchLabels": {NAME: "none"}}])
)
WHOLE_BLOCKS = [
    {"cidr": "0.0.0.0/0"},
    {"cidr": "0.0.0.0/0", "except": ["198.51.100.0/25"]},
    {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]},
    {"cidr": "10.0.0.0/8"},
    {"cidr": "10.0.0.0/8", "except": ["10.244.0.0/16"]},
    {"cidr": "198.51.100.0/24"},
    {"cidr": "10.96.0.0/16"},
    {"cidr": "192.0.2.0/24"},
    {"cidr": "2001:db8::/32"},
    {"cidr": "::/0"},
]
"""Each names all addresses that pods have, or none."""
PART_BLOCKS = [
    {"cidr": "10.244.0.0/30"},
    {"cidr": "0.0.0.0/0", "except": ["10.244.0.2/32"]},
    {"cidr": "10.244.0.0/15", "except": ["10.244.128.0/17"]},
]


def _peers(blocks: list[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries({"podSelector": _SELECTORS}),
        st.fixed_dictionaries({"namespaceSelector": _NAMESPACES}),
        st.fixed_dictionaries({"namespaceSelector": _NAMESPACES, "podSelector": _SELECTORS}),
        st.fixed_dictionaries({"ipBlock": st.sampled_from(blocks)}),
    )


def _rules(field: str, blocks: list[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    ports = st.lists(
        st.sampled_from(
            [{"port": 80}, {"port": 1, "endPort": 100}, {"protocol": "UDP"}, {"protocol": "TCP"}]
        ),
        max_size=2,
    )
    peers = st.lists(_peers(blocks), max_size=3)
    return st.lists(st.fixed_dictionaries({}, optional={field: peers, "ports": ports}), max_size=2)


def policies(blocks: list[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return a strategy of policies in two namespaces."""
    spec = st.fixed_dictionaries(
        {"podSelector": _SELECTORS},
        optional={
            "policyTypes": st.lists(
                st.sampled_from(["Ingress", "Egress"]), min_size=1, max_size=2, unique=True
            ),
            "ingress": _rules("from", blocks),
            "egress": _rules("to", blocks),
        },
    )
    one = st.builds(
        lambda namespace, spec: object_of(
            "NetworkPolicy", metadata={"namespace": namespace}, spec=spec
        ),
        st.sampled_from(["web", "db"]),
        spec,
    )
    return st.lists(one, min_size=1, max_size=3)


_WORLDS = st.fixed_dictionaries(
    {
        "web": st.tuples(_LABELS, st.lists(_LABELS, min_size=1, max_size=2)),
        "db": st.tuples(_LABELS, st.lists(_LABELS, min_size=1, max_size=2)),
    }
)
PolicyWorld = dict[str, tuple[dict[str, str], list[dict[str, str]]]]


def above(world: PolicyWorld) -> list[NetworkPod]:
    """Return the pods as the tenant sees them. Each has a label that does not go down."""
    found = []
    for namespace, (labels, pods) in world.items():
        for pod in pods:
            number = len(found) + 1
            found.append(
                NetworkPod(
                    ip=f"10.244.0.{number}",
                    name=f"p{number}",
                    namespace=namespace,
                    labels={**pod, "sidecar.istio.io/inject": "true"},
                    namespace_labels={**labels, NAME: namespace},
                )
            )
    return found


def below(pod: NetworkPod, tenant: Tenant, ip: str = "") -> NetworkPod:
    """Return the twin of a pod."""
    namespace = names.build_super_namespace(tenant.root, tenant.uid, pod.namespace)
    passed = {key: value for key, value in pod.labels.items() if object_meta.is_label_synced(key)}
    return NetworkPod(
        ip=ip or pod.ip,
        name=pod.name,
        namespace=namespace,
        labels={**passed, **below_labels(tenant, pod.namespace)},
        namespace_labels={**below_labels(tenant, pod.namespace), NAME: namespace},
    )


def of_the_root(component: str, tenant: Tenant, ip: str) -> NetworkPod:
    """Return a pod of a tenant's control plane."""
    return NetworkPod(
        ip=ip,
        name=component,
        namespace=tenant.root,
        labels={"component-name": component, **below_labels(tenant, "")},
        namespace_labels={**below_labels(tenant, ""), NAME: tenant.root},
    )


def seen(world: PolicyWorld, **fields: Any) -> TenantView:
    """Return the look at the tenant of a world."""
    labels = {name: {**own, NAME: name} for name, (own, _) in world.items()}
    return network_view(namespaces=labels, **fields)


def translated(found: list[dict[str, Any]], view: TenantView) -> list[dict[str, Any]]:
    """Return the twins of policies."""
    return [network_policies.build_network_policy(each, view) for each in found]


def pairs(pods: list[NetworkPod]) -> list[tuple[NetworkPod, NetworkPod]]:
    """Return every two different pods."""
    return [(one, two) for one in pods for two in pods if one.name != two.name]


@settings(max_examples=300)
@given(_WORLDS, policies(WHOLE_BLOCKS))
def test_the_same_matrix_inside_a_tenant(world: PolicyWorld, found: list[dict[str, Any]]):
    pods, twins = above(world), translated(found, seen(world))
    for source, target in pairs(pods):
        for port in PORTS:
            own = policy_matrix.allowed(found, source, target, port)
            there = policy_matrix.allowed(twins, below(source, TENANT), below(target, TENANT), port)
            assert own == there, (source, target, port)
    for pod in pods:
        for host in OUTSIDE:
            for port in PORTS:
                twin = below(pod, TENANT)
                out = policy_matrix.allowed(found, pod, host, port)
                assert out == policy_matrix.allowed(twins, twin, host, port), (pod, host)
                into = policy_matrix.allowed(found, host, pod, port)
                assert into == policy_matrix.allowed(twins, host, twin, port), (host, pod)


@given(_WORLDS, policies([*WHOLE_BLOCKS, *PART_BLOCKS]))
def test_a_block_of_some_pods_only_denies_more(world: PolicyWorld, found: list[dict[str, Any]]):
    twins = translated(found, seen(world))
    for source, target in pairs(above(world)):
        for port in PORTS:
            there = policy_matrix.allowed(twins, below(source, TENANT), below(target, TENANT), port)
            assert not there or policy_matrix.allowed(found, source, target, port)


@given(_WORLDS, policies([*WHOLE_BLOCKS, *PART_BLOCKS]))
def test_only_denials_across_tenants(world: PolicyWorld, found: list[dict[str, Any]]):
    """The second tenant has the same namespaces and pods, labels and all."""
    twins = translated(found, seen(world))
    pods = [below(pod, TENANT) for pod in above(world)]
    foreign_pods = [
        below(pod, OTHER, f"10.244.1.{index}") for index, pod in enumerate(above(world))
    ]
    foreign_pods += [
        of_the_root(component, OTHER, "10.244.2.2") for component in ("apiserver", "coredns")
    ]
    for pod in pods:
        for direction in ("Ingress", "Egress"):
            is_isolated = any(policy_matrix.is_selected(t, pod, direction) for t in twins)
            event(f"{direction} isolated: {is_isolated}")
            for foreign_pod in foreign_pods:
                for port in PORTS:
                    passes = policy_matrix.may(twins, pod, foreign_pod, port, direction)
                    assert passes == (not is_isolated)


@given(_WORLDS, policies(WHOLE_BLOCKS))
def test_the_control_plane_is_reached_and_the_super_cluster_is_not(
    world: PolicyWorld, found: list[dict[str, Any]]
):
    twins = translated(found, seen(world))
    own = {name: of_the_root(name, TENANT, "10.244.3.3") for name in ("apiserver", "coredns")}
    store = of_the_root("etcd", TENANT, "10.244.3.4")
    for pod in (below(pod, TENANT) for pod in above(world)):
        for port in PORTS:
            for host in own.values():
                assert policy_matrix.allowed(twins, pod, host, port)
            assert policy_matrix.allowed(twins, own["apiserver"], pod, port)
            if any(policy_matrix.is_selected(t, pod, "Egress") for t in twins):
                for host in (store, *INFRASTRUCTURE):
                    assert not policy_matrix.allowed(twins, pod, host, port)


@given(_WORLDS, policies(WHOLE_BLOCKS))
def test_a_twin_differs_from_itself_in_nothing(world: PolicyWorld, found: list[dict[str, Any]]):
    for twin in translated(found, seen(world)):
        assert network_policies.build_change(as_live(twin), twin) is None


@given(_WORLDS, policies(WHOLE_BLOCKS))
def test_without_any_known_range_the_marks_still_hold(
    world: PolicyWorld, found: list[dict[str, Any]]
):
    """Where no range is known, addresses are what they are, but selectors reach no foreign pod."""
    blocks = [
        peer
        for each in found
        for field, side in (("ingress", "from"), ("egress", "to"))
        for rule in each["spec"].get(field) or ()
        for peer in rule.get(side) or [{"ipBlock": {}}]
        if "ipBlock" in peer
    ]
    assume(not blocks)
    twins = translated(found, seen(world, ranges=NO_CIDRS))
    pods = [below(pod, TENANT) for pod in above(world)]
    for pod in pods:
        if any(policy_matrix.is_selected(t, pod, "Ingress") for t in twins):
            foreign_pod = below(above(world)[0], OTHER, "10.244.1.1")
            assert not policy_matrix.may(twins, pod, foreign_pod, NetworkPort(80), "Ingress")


def test_everybody_is_everybody_of_the_tenant_of_the_world_and_of_the_super_cluster_itself():
    controller = NetworkPod(
        ip="10.244.9.9",
        name="ingress-controller",
        namespace="ingress",
        labels={},
        namespace_labels={NAME: "ingress"},
    )
    body = object_of(
        "NetworkPolicy",
        spec={"podSelector": {}, "ingress": [{}], "egress": [{}]},
    )
    twins = translated([body], network_view(namespaces={"web": {}}))
    pod = below(above({"web": ({}, [{}])})[0], TENANT)
    assert policy_matrix.allowed(twins, controller, pod, NetworkPort(80))
    assert not policy_matrix.allowed(twins, pod, controller, NetworkPort(80))
    assert policy_matrix.allowed(twins, pod, NetworkHost("8.8.8.8"), NetworkPort(53, "UDP"))
    assert policy_matrix.allowed(twins, pod, NetworkHost("2001:db8::1"), NetworkPort(80))
