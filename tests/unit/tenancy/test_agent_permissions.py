"""What is written for the agents reads the same, and what is not whole is nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy import agent_permissions
from tenancy.agent_permissions import Call, Switches, SwitchesProblemError

NAMES = st.text(max_size=8)
ALL = Switches(
    {"baseline": frozenset(Call), "shops": frozenset({Call.LOGS})}, {"u": "shops", "v": "gone"}
)


@given(
    st.dictionaries(NAMES, st.frozensets(st.sampled_from(Call))),
    st.dictionaries(NAMES, NAMES),
)
def test_what_is_written_reads_the_same(policies, tenants):
    whole = Switches(policies, tenants)
    assert agent_permissions.read(agent_permissions.write(whole)) == whole


def test_the_form_is_the_one_that_running_agents_know():
    assert agent_permissions.write(ALL) == (
        '{"policies":{"baseline":["attach","exec","logs","portForward"],"shops":["logs"]},'
        '"tenants":{"u":"shops","v":"gone"}}'
    )


@pytest.mark.parametrize(
    "document",
    [
        *("", "{", "null", "[]", "{}", '{"policies":{}}', '{"policies":[],"tenants":{}}'),
        *('{"policies":{"a":"exec"},"tenants":{}}', '{"policies":{"a":[1]},"tenants":{}}'),
        *('{"policies":{"a":{"exec":true}},"tenants":{}}', '{"policies":{},"tenants":[]}'),
        *('{"policies":{},"tenants":{"u":5}}', '{"policies":{},"tenants":{"u":null}}'),
        "[" * 100_000,
    ],
)
def test_what_is_not_whole_is_nothing(document):
    with pytest.raises(SwitchesProblemError):
        agent_permissions.read(document)


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_nothing_but_a_known_name_is_a_call(item):
    try:
        found = agent_permissions.read(json.dumps({"policies": {"a": item}, "tenants": {}}))
    except SwitchesProblemError:
        return
    assert all(call.value in item for call in found.policies["a"])


def test_a_call_of_a_later_version_is_left_out():
    found = agent_permissions.read('{"policies":{"a":["exec","checkpoint"]},"tenants":{}}')
    assert found.policies == {"a": {Call.EXEC}}
