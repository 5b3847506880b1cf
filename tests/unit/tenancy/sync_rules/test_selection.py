"""Rules of one tenant: its policy and the rule must both select."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy.policies import ClassFilter, TenantPolicySpec
from tenancy.sync_rules.selection import select_rules
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule

GOLD = {"matchLabels": {"plan": "gold", "zone": "a"}}


def build_rule(name: str, **spec: Any) -> SyncRule:
    """Return a rule with a label."""
    resource = {"group": "example.io", "version": "v1", "kind": name, "plural": f"{name}s"}
    metadata = {"name": name, "labels": {"team": name}}
    body = {"resource": resource, "direction": "Down", "fields": ["spec.size"], **spec}
    return parse_sync_rule({"metadata": metadata, "spec": body})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ["open"]),
        ({"plan": "gold"}, ["open"]),
        ({"plan": "silver", "zone": "a"}, ["open"]),
        ({"plan": "gold", "zone": "a", "other": "x"}, ["gold", "open"]),
    ],
)
def test_a_rule_selects_virtual_clusters_by_all_of_its_labels(labels, expected):
    rules = [build_rule("open"), build_rule("gold", virtualClusterSelector=GOLD)]
    policy = TenantPolicySpec(sync_rules=ClassFilter(names=("open", "gold")))
    assert [each.name for each in select_rules(rules, policy, labels)] == expected


def test_a_rule_that_the_policy_does_not_name_applies_to_no_virtual_cluster():
    rules = [build_rule("open"), build_rule("gold", virtualClusterSelector=GOLD)]
    labels = GOLD["matchLabels"]
    assert select_rules(rules, TenantPolicySpec(), labels) == ()
    policy = TenantPolicySpec(sync_rules=ClassFilter(match_labels={"team": "gold"}))
    assert [each.name for each in select_rules(rules, policy, labels)] == ["gold"]
