"""Labels that are not synced under their own keys: every place that selects by one still works."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kubeio.cache.store import parse_entry
from syncer.model import label_selectors, object_meta
from syncer.rules import disruption_budgets
from syncer.rules.network import endpoint_slices, network_policies, services
from syncer.rules.pods import pod_build, pod_patch
from syncer.tenants.scopes import target_scope
from tenancy import wellknown
from tenancy.policies import TenantPolicySpec
from tests.support.syncer.pods import FACTS, TENANT, pod
from tests.support.syncer.tenant_views import add, network_view, object_of, policy

GATEWAY = "gateway.networking.k8s.io/gateway-name"
LONGEST = f"{'.'.join(['d' * 58] * 4)}.k8s.io/{'n' * 63}"
HELD_BACK = (
    GATEWAY,
    "linkerd.io/control-plane-component",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/group-key",
    "sidecar.istio.io/inject",
    "istio-injection",
    "topology.kubernetes.io/zone",
    "kueue.x-k8s.io/queue-name",
    "example.com/team",
    "strimzi.io/cluster",
    "io.kubernetes.pod.namespace",
    "control-plane",
    wellknown.VC_UID,
    wellknown.translate_label_key(GATEWAY),
    LONGEST,
)
SYNCED = ("app", "app.kubernetes.io/name", "helm.sh/chart", "pod-template-hash")
VALUES: tuple[str | None, ...] = ("a", "b", "", None)
"""Values of the label on four pods. The last pod does not have it."""
KEY = re.compile(r"[a-z0-9.-]{1,253}/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Selector = dict[str, Any]
Place = Callable[[Selector, TenantPolicySpec], Selector]


def twin_of_pod(tenant_pod: dict[str, Any], limits: TenantPolicySpec) -> dict[str, Any]:
    """Return the super pod."""
    return pod_build.build_super_pod(tenant_pod, FACTS._replace(policy=limits)).pod


def labelled(key: str, value: str | None) -> dict[str, Any]:
    """Return a tenant pod with one label, or with none."""
    return pod({"labels": {} if value is None else {key: value}})


def of_service(selector: Selector, limits: TenantPolicySpec) -> Selector:
    """Return the selector of a Service's twin. A Service has equalities only."""
    spec = {"type": "ClusterIP", "clusterIP": "10.96.8.9", "ports": [{"port": 80}]}
    spec["selector"] = selector["matchLabels"]
    twin = services.build_service(object_of("Service", spec=spec), network_view(policy=limits))
    return {"matchLabels": twin["spec"]["selector"]}


def of_policy(selector: Selector, limits: TenantPolicySpec) -> Selector:
    """Return the pod selector of a network policy's twin."""
    own = object_of("NetworkPolicy", spec={"podSelector": selector})
    twin = network_policies.build_network_policy(own, network_view(policy=limits))
    found: Selector = twin["spec"]["podSelector"]
    return found


def of_peer(field: str, peers: str, **more: Any) -> Place:
    """Return the place of a peer's pod selector."""

    def place(selector: Selector, limits: TenantPolicySpec) -> Selector:
        peer = {"podSelector": selector, **more}
        spec = {
            "podSelector": {},
            "policyTypes": [field.capitalize()],
            field: [{peers: [peer]}],
        }
        view = network_view(policy=limits, namespaces={"web": {"team": "a"}})
        twin = network_policies.build_network_policy(object_of("NetworkPolicy", spec=spec), view)
        found: Selector = twin["spec"][field][0][peers][0]["podSelector"]
        return found

    return place


def budget(selector: Selector) -> dict[str, Any]:
    """Return a budget that the tenant's controller has processed."""
    status = {"desiredHealthy": 1, "observedGeneration": 1}
    spec = {"minAvailable": 1, "selector": selector}
    return object_of("PodDisruptionBudget", spec=spec, status=status)


def of_budget(selector: Selector, limits: TenantPolicySpec) -> Selector:
    """Return the selector of a budget's twin."""
    view = network_view(policy=limits)
    twin = disruption_budgets.build_disruption_budget(budget(selector), view)
    found: Selector = twin["spec"]["selector"]
    assert found["matchLabels"].pop(wellknown.VC_UID) == TENANT.uid
    return found


def of_affinity(field: str, *, soft: bool) -> Place:
    """Return the place of a term of pod affinity."""

    def place(selector: Selector, limits: TenantPolicySpec) -> Selector:
        # The tenant's API server merges the label keys into the selector and keeps them.
        keys = {"matchLabelKeys": [GATEWAY], "mismatchLabelKeys": [LONGEST]}
        term = {"topologyKey": HOST, "labelSelector": selector, **keys}
        listed = [{"weight": 1, "podAffinityTerm": term}] if soft else [term]
        spec = {"affinity": {field: {PREFERRED if soft else REQUIRED: listed}}}
        twin = twin_of_pod(pod(**spec), limits)["spec"]["affinity"][field]
        (made,) = twin[PREFERRED if soft else REQUIRED]
        made = made["podAffinityTerm"] if soft else made
        assert not {"matchLabelKeys", "mismatchLabelKeys"} & made.keys()
        found: Selector = made["labelSelector"]
        assert found["matchLabels"].pop(wellknown.VC_UID) == TENANT.uid
        return found

    return place


def of_spread(selector: Selector, limits: TenantPolicySpec) -> Selector:
    """Return the selector of a topology spread constraint."""
    constraint = {"topologyKey": HOST, "maxSkew": 1, "labelSelector": selector}
    twin = twin_of_pod(pod(topologySpreadConstraints=[constraint]), limits)
    found: Selector = twin["spec"]["topologySpreadConstraints"][0]["labelSelector"]
    return found


PLACES: dict[str, Place] = {
    "Service": of_service,
    "NetworkPolicy podSelector": of_policy,
    "NetworkPolicy ingress": of_peer("ingress", "from"),
    "NetworkPolicy egress": of_peer("egress", "to"),
    "NetworkPolicy ingress of namespaces": of_peer(
        "ingress", "from", namespaceSelector={"matchLabels": {"team": "a"}}
    ),
    "NetworkPolicy egress of all namespaces": of_peer("egress", "to", namespaceSelector={}),
    "PodDisruptionBudget": of_budget,
    **{
        f"{field} {'preferred' if soft else 'required'}": of_affinity(field, soft=soft)
        for field in ("podAffinity", "podAntiAffinity")
        for soft in (False, True)
    },
    "topologySpreadConstraints": of_spread,
}


def selectors(key: str) -> dict[str, Selector]:
    """Return one selector for each form that the API has."""
    return {
        "equality": {"matchLabels": {key: "a"}},
        "In": {"matchExpressions": [{"key": key, "operator": "In", "values": ["a", ""]}]},
        "NotIn": {"matchExpressions": [{"key": key, "operator": "NotIn", "values": ["a"]}]},
        "Exists": {"matchExpressions": [{"key": key, "operator": "Exists"}]},
        "DoesNotExist": {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]},
        "both": {
            "matchLabels": {key: "a"},
            "matchExpressions": [{"key": key, "operator": "Exists"}],
        },
    }


POLICIES = {
    "baseline": policy(),
    "listed": policy(
        metadata={"labelDomains": ["gateway.networking.k8s.io", "linkerd.io", "sidecar.istio.io"]}
    ),
    "opaque": policy(metadata={"opaquePrefixes": ["app", "strimzi.io/", "gateway"]}),
}


@pytest.mark.parametrize("limits", POLICIES)
@pytest.mark.parametrize("key", [*HELD_BACK, *SYNCED])
@pytest.mark.parametrize("place", PLACES)
def test_a_twins_selector_selects_the_twins_of_the_pods_that_its_own_selects(place, key, limits):
    forms = selectors(key)
    if place == "Service":
        forms = {"equality": forms["equality"]}
    for form, selector in forms.items():
        found = PLACES[place](selector, POLICIES[limits])
        for value in VALUES:
            own = labelled(key, value)
            twin = twin_of_pod(own, POLICIES[limits])
            assert label_selectors.matches(found, twin["metadata"]["labels"]) is (
                label_selectors.matches(selector, own["metadata"]["labels"])
            ), (form, value)


@pytest.mark.parametrize("key", HELD_BACK)
def test_a_pod_has_the_label_under_a_key_that_means_nothing_in_the_super_cluster(key):
    labels = twin_of_pod(labelled(key, "a"), policy())["metadata"]["labels"]
    (found,) = [each for each in labels if each.startswith(f"{wellknown.LABEL_DOMAIN}/")]
    assert (labels[found], found) == ("a", wellknown.translate_label_key(key))
    assert labels.get(key) in (None, TENANT.uid), "its own key is the super cluster's"
    assert KEY.fullmatch(found)
    assert len(found.partition("/")[2]) <= 63
    assert wellknown.is_reserved_key(found), "a tenant cannot write it itself"


@pytest.mark.parametrize("key", SYNCED)
def test_a_synced_label_has_its_own_key_only(key):
    metadata = twin_of_pod(labelled(key, "a"), policy())["metadata"]
    assert metadata["labels"][key] == "a"
    assert not [each for each in metadata["labels"] if wellknown.LABEL_DOMAIN in each]
    assert wellknown.LABEL_KEYS not in metadata["annotations"]


def test_translated_keys_never_collide():
    """Neither with each other nor with a key that the tenant writes in the domain itself."""
    keys = [f"x{number}.k8s.io/{'n' * 62}{number % 2}" for number in range(500)]
    keys += [wellknown.translate_label_key(key) for key in keys]
    keys += [f"{GATEWAY}.", GATEWAY.upper(), f"x.{GATEWAY}", "x.k8s.io/", "x.k8s.io/-"]
    assert len({wellknown.translate_label_key(key) for key in keys}) == len(keys)
    labels = dict.fromkeys(keys, "a")
    found = object_meta.translate_labels(labels, policy().metadata)
    assert len(found) == len(labels)


def test_a_policy_that_lists_the_domain_moves_the_label_of_a_running_pod_and_back():
    own, key = labelled(GATEWAY, "edge"), wellknown.translate_label_key(GATEWAY)
    listed = POLICIES["listed"]
    for before, after, removed, added in (
        (policy(), listed, key, GATEWAY),
        (listed, policy(), GATEWAY, key),
    ):
        live = twin_of_pod(own, before)
        live["metadata"]["uid"] = "below"
        patch = pod_patch.build_running_patch(own, live, TENANT, policy=after)
        assert patch is not None
        assert patch["metadata"]["labels"] == {removed: None, added: "edge"}
        live = {**twin_of_pod(own, after)}
        live["metadata"]["uid"] = "below"
        assert pod_patch.build_running_patch(own, live, TENANT, policy=after) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, {"value": None}),
        ({"value": "b"}, {"value": "b"}),
        ({"more": "x"}, {"more": None}),
    ],
)
def test_drift_of_a_translated_label_is_undone(labels, expected):
    own = labelled(GATEWAY, "b" if labels else "a")
    live = twin_of_pod(labelled(GATEWAY, "a"), policy())
    live["metadata"]["uid"] = "below"
    keys = {
        "value": wellknown.translate_label_key(GATEWAY),
        "more": wellknown.translate_label_key("linkerd.io/x"),
    }
    if "more" in labels:
        own = labelled(GATEWAY, "a")
        live["metadata"]["labels"][keys["more"]] = "x"
    elif not labels:
        own = labelled(GATEWAY, None)
    patch = pod_patch.build_running_patch(own, live, TENANT, policy=policy())
    assert patch is not None
    assert patch["metadata"]["labels"] == {keys[key]: value for key, value in expected.items()}


@pytest.mark.parametrize("key", HELD_BACK)
def test_the_downward_api_shows_the_tenants_keys(key):
    paths = (f"metadata.labels['{key}']", "metadata.labels")
    items = [{"path": f"f{at}", "fieldRef": {"fieldPath": path}} for at, path in enumerate(paths)]
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": paths[0]}}}
    own = pod({"labels": {key: "a", "app": "web"}}, volumes=[_downward(items)])
    own["spec"]["containers"][0]["env"] = [variable]
    twin = twin_of_pod(own, policy())
    values = twin["metadata"]["annotations"]
    (volume,) = twin["spec"]["volumes"]
    read = [values[_annotation(item["fieldRef"])] for item in volume["downwardAPI"]["items"]]
    assert read == ["a", "\n".join(sorted(['app="web"', f'{key}="a"']))]
    (made,) = [each for each in twin["spec"]["containers"][0]["env"] if each["name"] == "A"]
    assert values[_annotation(made["valueFrom"]["fieldRef"])] == "a"


def _downward(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "info", "downwardAPI": {"items": items}}


def _annotation(ref: dict[str, Any]) -> str:
    found = re.fullmatch(r"metadata\.annotations\['(.*)'\]", ref["fieldPath"])
    assert found is not None
    return found[1]


@pytest.mark.parametrize("key", [*HELD_BACK, *SYNCED])
def test_label_keys_of_a_spread_constraint_follow_the_pods_own_labels(key):
    constraint = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "labelSelector": {},
        "matchLabelKeys": [key, "absent.k8s.io/x"],
    }
    own = pod({"labels": {key: "a"}}, topologySpreadConstraints=[constraint])
    twin = twin_of_pod(own, policy())
    (made,) = twin["spec"]["topologySpreadConstraints"]
    assert "matchLabelKeys" not in made
    selector = made["labelSelector"]
    assert label_selectors.matches(selector, twin["metadata"]["labels"])
    for value in ("b", None):
        other = twin_of_pod(labelled(key, value), policy())["metadata"]["labels"]
        assert not label_selectors.matches(selector, other)


@pytest.mark.parametrize("key", [GATEWAY, "team"])
def test_namespaces_are_selected_by_the_labels_that_they_have_in_the_tenant(key):
    view = network_view(namespaces={"a": {key: "x"}, "b": {}})
    spec = {
        "podSelector": {},
        "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {key: "x"}}}]}],
    }
    twin = network_policies.build_network_policy(object_of("NetworkPolicy", spec=spec), view)
    (listed,) = twin["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchExpressions"]
    assert listed["values"] == [view.get_super_namespace("a")]


@pytest.mark.parametrize("key", [*HELD_BACK, *SYNCED])
def test_a_target_needs_the_budget_of_its_pods(key):
    view = network_view()
    entry = parse_entry(orjson.dumps(budget({"matchLabels": {key: "a"}})))
    add(
        view.super_stores["Pod"],
        "p",
        namespace=view.get_super_namespace("web"),
        labels=twin_of_pod(labelled(key, "a"), policy())["metadata"]["labels"],
    )
    kind = disruption_budgets.BUDGET
    assert target_scope.is_needed_in_target(kind, entry, view, None, None)  # type: ignore[arg-type]
    other = parse_entry(orjson.dumps(budget({"matchLabels": {key: "b"}})))
    assert not target_scope.is_needed_in_target(kind, other, view, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", HELD_BACK)
def test_kinds_that_no_selector_names_do_not_get_the_label(key):
    """An EndpointSlice is found by the name of its Service, which every twin has."""
    labels = {endpoint_slices.SERVICE_NAME: "s", key: "a"}
    own = object_of("EndpointSlice", metadata={"labels": labels}, addressType="IPv4", endpoints=[])
    twin = endpoint_slices.build_endpoint_slice(own, network_view())
    assert twin["metadata"]["labels"][endpoint_slices.SERVICE_NAME] == "s"
    assert not [each for each in twin["metadata"]["labels"] if wellknown.LABEL_DOMAIN in each]
