"""Written permissions are read without change, and incomplete ones permit nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy import agent_permissions
from tenancy.agent_permissions import AgentPermissions, InvalidAgentPermissionsError, KubeletCall

NAMES = st.text(max_size=8)
ALL = AgentPermissions(
    {"baseline": frozenset(KubeletCall), "shops": frozenset({KubeletCall.LOGS})},
    {"u": "shops", "v": "gone"},
)


@given(
    st.dictionaries(NAMES, st.frozensets(st.sampled_from(KubeletCall))),
    st.dictionaries(NAMES, NAMES),
)
def test_what_is_written_reads_the_same(policies, tenants):
    whole = AgentPermissions(policies, tenants)
    assert (
        agent_permissions.decode_permissions(agent_permissions.encode_permissions(whole)) == whole
    )


def test_the_form_is_the_one_that_running_agents_know():
    assert agent_permissions.encode_permissions(ALL) == (
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
    with pytest.raises(InvalidAgentPermissionsError):
        agent_permissions.decode_permissions(document)


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_nothing_but_a_known_name_is_a_call(item):
    try:
        found = agent_permissions.decode_permissions(
            json.dumps({"policies": {"a": item}, "tenants": {}})
        )
    except InvalidAgentPermissionsError:
        return
    assert all(call.value in item for call in found.policies["a"])


def test_a_call_of_a_later_version_is_left_out():
    found = agent_permissions.decode_permissions(
        '{"policies":{"a":["exec","checkpoint"]},"tenants":{}}'
    )
    assert found.policies == {"a": {KubeletCall.EXEC}}
