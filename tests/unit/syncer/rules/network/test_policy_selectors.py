"""Which pods the network policies of a tenant select."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.cache.store import Entry
from syncer.rules.network.policy_selectors import PolicySelectors
from syncer.rules.network.policy_size import MAX_SELECTOR_ITEMS
from tenancy.wellknown import POLICED_EGRESS, POLICED_INGRESS
from tests.support.syncer.tenant_views import entry_of, object_of

INGRESS, EGRESS = {POLICED_INGRESS: "true"}, {POLICED_EGRESS: "true"}
APP: dict[str, Any] = {"podSelector": {"matchLabels": {"app": "a"}}}
EXPRESSION: dict[str, Any] = {"key": "app", "operator": "In", "values": ["a"]}


def policy(name: str = "p", **spec: Any) -> Entry:
    """Return a policy of the tenant."""
    return entry_of(object_of("NetworkPolicy", metadata={"name": name}, spec=spec))


@pytest.mark.parametrize(
    ("spec", "labels", "found"),
    [
        (APP, {"app": "a"}, INGRESS),
        (APP, {"app": "b"}, {}),
        ({"podSelector": {}}, {}, INGRESS),
        ({}, {}, INGRESS),
        ({**APP, "egress": [{}]}, {"app": "a"}, {**INGRESS, **EGRESS}),
        ({**APP, "egress": []}, {"app": "a"}, INGRESS),
        ({**APP, "policyTypes": ["Egress"]}, {"app": "a"}, EGRESS),
        ({**APP, "policyTypes": ["Other"]}, {"app": "a"}, {}),
        ({"podSelector": {"matchExpressions": [EXPRESSION]}}, {"app": "a"}, INGRESS),
        ({"podSelector": {"matchLabels": "x"}}, {}, {}),
        ({"podSelector": {"matchLabels": {"app": 1}}}, {}, {}),
        (
            {"podSelector": {"matchLabels": {f"k{n}": "" for n in range(MAX_SELECTOR_ITEMS + 1)}}},
            {},
            INGRESS,
        ),
    ],
)
def test_the_directions_of_a_pod(spec: dict[str, Any], labels: dict[str, str], found):
    index = PolicySelectors()
    index.set(None, policy(**spec))
    assert index.build_labels("web", labels) == found
    assert index.build_labels("db", labels) == {}


def test_changes_name_the_selectors_before_and_after():
    index = PolicySelectors()
    one, two = policy(**APP), policy(podSelector={"matchLabels": {"app": "b"}})
    assert [each.selects({"app": "a"}) for each in index.set(None, one)] == [True]
    assert index.set(one, one) == ()
    assert [each.selects({"app": "a"}) for each in index.set(one, two)] == [True, False]
    assert index.build_labels("web", {"app": "a"}) == {}
    assert len(list(index.set(two, None))) == 1
    assert index.build_labels("web", {"app": "b"}) == {}


def test_policies_add_up():
    index = PolicySelectors()
    index.set(None, policy("one", **APP))
    index.set(None, policy("two", podSelector={}, policyTypes=["Egress"]))
    assert index.build_labels("web", {"app": "a"}) == {**INGRESS, **EGRESS}
    assert index.build_labels("web", {}) == EGRESS


def test_a_policy_that_ends_selects_nothing():
    index, ending = PolicySelectors(), object_of("NetworkPolicy", spec=APP)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    index.set(None, entry_of(ending))
    assert index.build_labels("web", {"app": "a"}) == {}
