"""Size limits of network policies, at the limit and one past it."""

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.network import policy_size
from syncer.rules.network.policy_size import (
    MAX_COMPARED_LABELS,
    MAX_RENDERED_ITEMS,
    MAX_WRITTEN_ITEMS,
    PolicySizeBudget,
)


@pytest.mark.parametrize(
    ("spec", "written"),
    [
        ({}, 0),
        ({"ingress": [{"from": [{}, {}]}]}, 3),
        ({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["a", "b"]}}]}]}, 4),
        ({"ingress": [{}], "egress": [{"to": None}]}, 2),
    ],
)
def test_rules_peers_and_exceptions_are_counted(spec, written, monkeypatch):
    monkeypatch.setattr(policy_size, "MAX_WRITTEN_ITEMS", written)
    assert list(policy_size.check_written_size(spec)) == []
    monkeypatch.setattr(policy_size, "MAX_WRITTEN_ITEMS", written - 1)
    assert [each.rule for each in policy_size.check_written_size(spec)] == ["too-large"]


def test_the_limit_of_a_written_policy():
    peers = [{}] * (MAX_WRITTEN_ITEMS - 1)
    assert list(policy_size.check_written_size({"ingress": [{"from": peers}]})) == []
    assert list(policy_size.check_written_size({"ingress": [{"from": [*peers, {}]}]}))


def test_the_limit_of_a_rendered_policy():
    budget = PolicySizeBudget()
    budget.take_rendered(MAX_RENDERED_ITEMS)
    with pytest.raises(RejectedError, match="networks and namespaces"):
        budget.take_rendered(1)


def test_the_limit_of_compared_labels():
    """Each expression counts once, and once more per value. Each namespace counts all of them."""
    budget = PolicySizeBudget()
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "values": ["d"] * 8}]}
    budget.take_compared(selector, MAX_COMPARED_LABELS // 10)
    with pytest.raises(RejectedError, match="labels and values"):
        budget.take_compared({"matchLabels": {"a": "b"}}, 1)
