"""Definitions of ruled kinds for tenants, and reasons why a rule is not usable."""

import copy
from typing import Any

import pytest

from kubeio import Object
from tenancy import wellknown
from tenancy.sync_rules.rights import build_super_rules
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from vcmanager.plan.custom_kinds import sync_rules

SCHEMA = {"openAPIV3Schema": {"type": "object"}}
DEFINITION: Object = {
    "metadata": {
        "name": "widgets.example.io",
        "annotations": {"api-approved.kubernetes.io": "url", "cert-manager.io/inject": "x"},
    },
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "categories": ["all"]},
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "c"}}},
        "versions": [
            {"name": "v1", "served": True, "storage": False, "schema": SCHEMA},
            {"name": "v2", "served": False, "storage": True, "schema": SCHEMA},
        ],
    },
}


def build_rule(**changes: Any) -> SyncRule:
    """Return a rule of the kind, with changed coordinates or fields."""
    resource = {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}
    resource |= changes.pop("resource", {})
    spec = {"resource": resource, "direction": "Down", "fields": ["spec.size"], **changes}
    return parse_sync_rule({"metadata": {"name": "widgets"}, "spec": spec})


def test_a_copied_definition_has_one_version_and_no_webhook():
    found = sync_rules.build_tenant_definition(DEFINITION, build_rule())
    assert "conversion" not in found["spec"]
    assert found["metadata"]["annotations"] == {"api-approved.kubernetes.io": "url"}
    assert [each["name"] for each in found["spec"]["versions"]] == ["v1"]
    assert found["spec"]["versions"][0]["storage"] is True
    assert "categories" not in found["spec"]["names"]
    assert sync_rules.is_own_definition(found)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"resource": {"version": "v2"}}, "VersionNotServed"),
        ({"resource": {"kind": "Gadget"}}, "InvalidSpec"),
        ({"statusFields": ["status.**"]}, "StatusNotSupported"),
        ({"direction": "Mirror"}, "ScopeNotSupported"),
    ],
)
def test_a_rule_that_does_not_fit_its_definition_is_not_usable(changes, reason):
    rule = build_rule(**changes)
    problem = sync_rules.decide_problem(rule, [rule], DEFINITION)
    assert (problem.reason if problem else None) == reason


def test_a_missing_definition_is_reported():
    problem = sync_rules.decide_problem(build_rule(), [], None)
    assert problem is not None
    assert problem.reason == "DefinitionMissing"


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        ({}, None),
        (None, "VersionNotServed"),
        ({"kind": "Gadget"}, "InvalidSpec"),
        ({"namespaced": False}, "ScopeNotSupported"),
    ],
)
def test_a_built_in_kind_must_be_served(served, reason):
    entry = None if served is None else {"kind": "Widget", "namespaced": True, **served}
    problem = sync_rules.decide_problem(build_rule(definition="BuiltIn"), [], entry)
    assert (problem.reason if problem else None) == reason


def test_schemas_are_compared_in_the_version_of_the_rule():
    other = copy.deepcopy(DEFINITION)
    assert sync_rules.has_equal_schema(other, DEFINITION, build_rule())
    other["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "title": "x"}}
    assert not sync_rules.has_equal_schema(other, DEFINITION, build_rule())


def test_missing_rights_are_named_with_the_label():
    rule = build_rule()
    granted = build_super_rules([rule])
    assert sync_rules.find_missing_rights(rule, granted) is None
    granted[0]["verbs"].remove("delete")
    problem = sync_rules.find_missing_rights(rule, granted)
    assert problem is not None
    assert problem.reason == "RightsMissing"
    assert wellknown.AGGREGATE_TO_SYNCER in problem.message
    assert sync_rules.find_missing_rights(rule, []) is not None
