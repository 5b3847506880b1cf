"""Super namespaces: their labels and the level of Pod Security."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules import namespaces
from syncer.rules.namespaces import POD_SECURITY
from tenancy.policies import TenantPolicySpec, parse_tenant_policy
from tests.support.syncer.sessions import SessionWorld


def policy(**spec: Any) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


# Namespaces.


@pytest.mark.parametrize(
    ("spec", "level"),
    [
        ({}, "baseline"),
        ({"security": {"level": "restricted"}}, "restricted"),
        ({"security": {"level": "privileged"}}, "privileged"),
        ({"network": {"hostPorts": "Allow"}}, "privileged"),
    ],
)
def test_a_super_namespace_is_held_to_the_level_of_the_policy(spec, level):
    world = SessionWorld(policy(**spec))
    own = world.tenant_has("Namespace", "web", namespace="").decode()
    twin = namespaces.build_namespace(own, world.session.view)
    assert twin["metadata"]["labels"][POD_SECURITY] == level
    live = {"metadata": {**twin["metadata"], "uid": "u"}}
    assert namespaces.build_patch(live, twin) is None
    live["metadata"]["labels"] = {**live["metadata"]["labels"], POD_SECURITY: "other"}
    assert namespaces.build_patch(live, twin) == {
        "metadata": {"uid": "u", "labels": {POD_SECURITY: level}}
    }
