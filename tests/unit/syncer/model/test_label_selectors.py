"""Selectors: what they select, by the API's own words."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model import label_selectors
from tenancy.policies import BASELINE_POLICY, MetadataSpec

LABELS = {"app": "a", "tier": "b"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a selector of one expression."""
    item = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"matchExpressions": [item]}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchLabels": {"app": "a", "zone": "z"}}, False),
        (expression("app", "In", "a", "b"), True),
        (expression("app", "In", "b"), False),
        (expression("zone", "In", "z"), False),
        (expression("app", "NotIn", "b"), True),
        (expression("app", "NotIn", "a"), False),
        (expression("zone", "NotIn", "z"), True),
        (expression("app", "Exists"), True),
        (expression("zone", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
        (expression("zone", "DoesNotExist"), True),
        ({"matchLabels": {"app": "a"}, **expression("tier", "NotIn", "b")}, False),
    ],
)
def test_what_a_selector_selects(selector, selects):
    assert label_selectors.matches(selector, LABELS) is selects
    assert list(label_selectors.find_problems(selector, "spec", BASELINE_POLICY.metadata)) == []


@pytest.mark.parametrize(
    "key",
    [
        "tenancy.x-k8s.io/vcuid",
        "topology.kubernetes.io/zone",
        "sidecar.istio.io/inject",
        "istio-injection",
    ],
)
def test_labels_that_no_twin_has_are_not_selected_by(key):
    for selector in ({"matchLabels": {key: "x"}}, expression(key, "DoesNotExist")):
        (problem,) = label_selectors.find_problems(selector, "spec", BASELINE_POLICY.metadata)
        assert problem.rule == "selector-label"
        assert key in problem.text


def test_labels_that_a_policy_lets_down_may_be_selected_by():
    passing = MetadataSpec(label_domains=("istio.io",))
    for selector in ({"matchLabels": {"istio.io/rev": "x"}}, expression("istio.io/rev", "Exists")):
        assert list(label_selectors.find_problems(selector, "spec", passing)) == []
        assert list(label_selectors.find_problems(selector, "spec", BASELINE_POLICY.metadata)) != []
