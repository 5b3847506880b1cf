"""Kinds and fields that no SyncRule may open."""

from typing import Any

import pytest

from tenancy.sync_rules.checks import CLOSED_GROUPS, find_problem
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule


def build_rule(name: str = "widgets", **spec: Any) -> SyncRule:
    """Return a rule for a custom kind."""
    resource = {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}
    found = {"resource": resource, "direction": "Down", "fields": ["spec.size"], **spec}
    return parse_sync_rule({"metadata": {"name": name}, "spec": found})


def build_kind(group: str, kind: str) -> dict[str, str]:
    """Return the coordinates of a kind."""
    return {"group": group, "version": "v1", "kind": kind, "plural": f"{kind.lower()}s"}


def test_a_plain_rule_has_no_problem():
    assert find_problem(build_rule()) is None


@pytest.mark.parametrize("group", sorted(CLOSED_GROUPS))
def test_kinds_that_carry_rights_or_pods_are_forbidden(group):
    problem = find_problem(build_rule(resource=build_kind(group, "Thing")))
    assert problem is not None
    assert problem.reason == "KindForbidden"
    assert group in problem.message


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("", "Pod"),
        ("", "Secret"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("x.io", "Service"),
        ("x.io", "ResourceClaim"),
    ],
)
def test_kinds_that_the_product_syncs_are_reserved(group, kind):
    problem = find_problem(build_rule(resource=build_kind(group, kind)))
    assert problem is not None
    assert problem.reason == "KindReserved"


def test_claims_for_devices_may_have_a_rule():
    found = build_rule(resource=build_kind("resource.k8s.io", "ResourceClaim"))
    assert find_problem(found) is None


@pytest.mark.parametrize(
    "path",
    [
        "metadata.finalizers",
        "status.phase",
        "spec.template.spec.containers[].image",
        "spec.hostPath",
        "spec.serviceAccountName",
        "kind",
    ],
)
def test_privileged_fields_are_forbidden(path):
    problem = find_problem(build_rule(fields=[path]))
    assert problem is not None
    assert problem.reason == "FieldForbidden"
    assert path in problem.message


def test_a_reference_to_an_unknown_kind_is_refused():
    references = [{"path": "spec.to", "kinds": ["Gateway"]}]
    problem = find_problem(build_rule(references=references))
    assert problem is not None
    assert problem.reason == "ReferenceUnknown"
    other = build_rule("gateways", resource=build_kind("gateway.networking.k8s.io", "Gateway"))
    assert find_problem(build_rule(references=references), [other]) is None


def test_the_second_rule_of_a_kind_is_in_conflict():
    first, second = build_rule("a"), build_rule("b")
    assert find_problem(first, [first, second]) is None
    problem = find_problem(second, [first, second])
    assert problem is not None
    assert problem.reason == "Conflict"


def test_host_names_are_for_copies_only():
    rule = build_rule(hostnames=["spec.hostnames[]"])
    assert find_problem(rule) is None
    problem = find_problem(build_rule(direction="Mirror", hostnames=["spec.hostnames[]"]))
    assert problem is not None
    assert (problem.reason, "spec.hostnames" in problem.message) == ("InvalidSpec", True)


PLACED = {"placement": "WithPods"}


@pytest.mark.parametrize(
    "kinds", [["ConfigMap"], ["Secret"], ["ConfigMap", "Secret"], ["Widget"], ["Gadget"]]
)
def test_copies_that_follow_pods_may_name_what_follows_them(kinds):
    references = [{"path": "spec.to", "kinds": kinds}]
    gadget = build_rule("gadgets", resource=build_kind("example.io", "Gadget"), **PLACED)
    assert find_problem(build_rule(references=references, **PLACED), [gadget]) is None


@pytest.mark.parametrize(
    "kind", ["Service", "PersistentVolumeClaim", "StorageClass", "Gadget", "Shown"]
)
def test_copies_that_follow_pods_may_not_name_what_is_in_the_home_cluster(kind):
    references = [{"path": "spec.to", "kinds": ["ConfigMap", kind]}]
    gadget = build_rule("gadgets", resource=build_kind("example.io", "Gadget"))
    shown = build_rule("shown", resource=build_kind("x.io", "Shown"), direction="Mirror")
    problem = find_problem(build_rule(references=references, **PLACED), [gadget, shown])
    assert problem is not None
    assert (problem.reason, kind in problem.message) == ("PlacementConflict", True)
    assert find_problem(build_rule(references=references), [gadget, shown]) is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"direction": "Mirror"}, "spec.placement"),
        ({"hostnames": ["spec.hostnames[]"]}, "spec.hostnames"),
        ({"resource": build_kind("resource.k8s.io", "ResourceClaim")}, "spec.placement"),
    ],
)
def test_what_cannot_follow_pods(spec, field):
    problem = find_problem(build_rule(**PLACED, **spec))
    assert problem is not None
    assert (problem.reason, problem.message.startswith(field)) == ("InvalidSpec", True)


@pytest.mark.parametrize(
    "spec",
    [
        {"mirrorOwner": {"path": "spec.owner"}},
        {
            "direction": "Mirror",
            "mirrorOwner": {"path": "spec.owner"},
            "mirror": {"sourceNamespace": "infra", "tenantNamespace": "web"},
        },
    ],
)
def test_an_owner_is_for_shown_kinds_without_namespaces_only(spec):
    problem = find_problem(build_rule(**spec))
    assert problem is not None
    assert problem.message.startswith("spec.mirrorOwner")
    assert find_problem(build_rule(direction="Mirror", mirrorOwner={"path": "spec.owner"})) is None
