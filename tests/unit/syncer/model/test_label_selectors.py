"""Selectors: what they select, by the API's own words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model import label_selectors, object_meta
from tenancy import wellknown
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
    assert list(label_selectors.find_problems(selector, "spec")) == []


KEYS = ("app", "tenancy.x-k8s.io/vcuid", "topology.kubernetes.io/zone", "istio.io/rev", "dapr.io/a")
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.sampled_from(KEYS), st.sampled_from("ab"), max_size=2),
        "matchExpressions": st.lists(
            st.one_of(
                st.builds(
                    lambda key, operator, values: expression(key, operator, *values),
                    st.sampled_from(KEYS),
                    st.sampled_from(("In", "NotIn")),
                    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
                ),
                st.builds(
                    expression,
                    st.sampled_from(KEYS),
                    st.sampled_from(("Exists", "DoesNotExist")),
                ),
            ).map(lambda found: found["matchExpressions"][0]),
            max_size=3,
        ),
    },
)
POLICIES = (
    BASELINE_POLICY.metadata,
    MetadataSpec(label_domains=("istio.io",)),
    MetadataSpec(opaque_prefixes=("app", "istio.io/")),
)


@given(
    selector=SELECTORS,
    labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from("abc"), max_size=4),
    passing=st.sampled_from(POLICIES),
)
def test_a_translated_selector_selects_by_translated_labels_as_the_own_one_does(
    selector, labels, passing
):
    there = object_meta.translate_labels(labels, passing)
    found = label_selectors.translate_selector(selector, passing)
    assert label_selectors.matches(found, there) is label_selectors.matches(selector, labels)
    assert len(there) == len(labels)
    assert selector.keys() == found.keys(), "an absent list stays absent"


@pytest.mark.parametrize(
    ("key", "passing", "kept"),
    [
        ("app", BASELINE_POLICY.metadata, True),
        ("app.kubernetes.io/name", BASELINE_POLICY.metadata, True),
        ("istio.io/rev", BASELINE_POLICY.metadata, False),
        ("istio.io/rev", MetadataSpec(label_domains=("istio.io",)), True),
        ("istio.io/rev", MetadataSpec(label_domains=("other.io",)), False),
        ("tenancy.x-k8s.io/vcuid", BASELINE_POLICY.metadata, False),
        ("tenancy.x-k8s.io/vcuid", MetadataSpec(label_domains=("tenancy.x-k8s.io",)), False),
        ("app", MetadataSpec(opaque_prefixes=("app",)), False),
    ],
)
def test_the_keys_that_a_policy_lets_pass_are_not_translated(key, passing, kept):
    wanted = key if kept else wellknown.translate_label_key(key)
    assert label_selectors.translate_selector({"matchLabels": {key: "x"}}, passing) == {
        "matchLabels": {wanted: "x"}
    }
    assert label_selectors.translate_selector(expression(key, "Exists"), passing) == (
        expression(wanted, "Exists")
    )


def test_an_expression_of_no_shape_is_left_to_its_own_rule():
    item = {"key": ["a"], "operator": "Exists"}
    assert label_selectors.translate_selector(
        {"matchExpressions": [item]}, BASELINE_POLICY.metadata
    ) == {"matchExpressions": [item]}
