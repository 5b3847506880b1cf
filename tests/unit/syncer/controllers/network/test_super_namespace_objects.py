"""Default policies as objects of the syncer's own: created, restored and deleted."""

from __future__ import annotations

import pytest

from syncer.controllers.network import default_policies
from syncer.model.keys import DEFAULT_POLICY
from tenancy import names
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.tenant_views import policy
from tests.unit.syncer.controllers.network.test_default_policies import bare

OFF = policy(network={"isolation": "Off"})


@pytest.mark.parametrize("name", names.DEFAULT_POLICIES)
async def test_a_missing_policy_is_created(name: str):
    world = SessionWorld()
    bare(world)
    await default_policies.reconcile_default_policy(
        world.key(DEFAULT_POLICY, "web", name), world.session
    )
    assert world.below.writes() == [("create", "NetworkPolicy", name)]


@pytest.mark.parametrize("name", names.DEFAULT_POLICIES)
async def test_a_changed_policy_is_restored_and_a_right_one_is_left(name: str):
    world = SessionWorld()
    world.ready()
    key = world.key(DEFAULT_POLICY, "web", name)
    await default_policies.reconcile_default_policy(key, world.session)
    assert world.below.writes() == []
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    metadata = {"resourceVersion": "61"}
    world.super_has("NetworkPolicy", name, uid="web-uid", metadata=metadata, spec=spec)
    await default_policies.reconcile_default_policy(key, world.session)
    assert world.below.writes() == [("replace", "NetworkPolicy", name)]
    assert world.below.bodies[-1]["spec"] != spec


async def test_with_isolation_off_policies_are_deleted_and_not_waited_for():
    world = SessionWorld(OFF)
    bare(world)
    assert world.session.namespaces.get_ready(world.key("Pod", "web", "p"))
    world.has_default_policies()
    for name in names.DEFAULT_POLICIES:
        await default_policies.reconcile_default_policy(
            world.key(DEFAULT_POLICY, "web", name), world.session
        )
    assert world.below.writes() == [
        ("delete", "NetworkPolicy", name) for name in names.DEFAULT_POLICIES
    ]


async def test_nothing_is_written_without_a_namespace():
    world = SessionWorld()
    world.tenant_has("Namespace", "web", namespace="")
    await default_policies.reconcile_default_policy(
        world.key(DEFAULT_POLICY, "web", names.ISOLATION_POLICY), world.session
    )
    assert world.below.writes() == []
