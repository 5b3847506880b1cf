"""Fields of a TenantPolicy, and invalid values."""

import pytest

from tenancy.policies import BASELINE_POLICY, ClassFilter, parse_tenant_policy
from tenancy.specs import InvalidSpecError


def parse(**spec: object):
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


def test_a_policy_without_a_word_is_baseline():
    assert parse() == BASELINE_POLICY
    assert parse_tenant_policy({"metadata": {"name": "own"}}) == BASELINE_POLICY


def test_one_word_leaves_the_rest_as_it_is():
    found = parse(nodes={"view": "Full"})
    assert found.nodes.view == "Full"
    assert (found.nodes.expose, found.sync) == (BASELINE_POLICY.nodes.expose, BASELINE_POLICY.sync)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"security": {"level": "none"}}, r"TenantPolicy own.*security\.level"),
        ({"network": {"serviceTypes": ["Other"]}}, r"TenantPolicy own.*serviceTypes"),
        ({"nodes": []}, r"TenantPolicy own.*nodes"),
        ({"weight": 0}, r"TenantPolicy own.*weight"),
        ({"weight": 17}, r"TenantPolicy own.*weight"),
        ({"weight": "4"}, r"TenantPolicy own.*weight"),
        (
            {"security": {"level": "restricted"}, "network": {"hostPorts": "Allow"}},
            "Set network.hostPorts to Refuse",
        ),
    ],
)
def test_what_cannot_be_read_names_object_and_field(spec, told):
    with pytest.raises(InvalidSpecError, match=told):
        parse(**spec)


def test_classes_are_shown_by_name_or_by_all_labels():
    assert ClassFilter(names=("*",)).matches("any", {})
    assert ClassFilter(names=("fast",)).matches("fast", {})
    assert not ClassFilter(names=("fast",)).matches("slow", {})
    assert not ClassFilter().matches("any", {"a": "b"})
    by_labels = ClassFilter(match_labels={"a": "b", "c": "d"})
    assert by_labels.matches("any", {"a": "b", "c": "d", "e": "f"})
    assert not by_labels.matches("any", {"a": "b"})
