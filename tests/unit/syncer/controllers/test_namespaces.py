"""Reconciler of namespaces and of their default service accounts."""

from __future__ import annotations

import pytest

from syncer.controllers import namespaces
from syncer.rules import registry
from tenancy import names
from tests.support.syncer.sessions import SessionWorld, is_counted, put


@pytest.mark.parametrize(
    "given",
    [
        {"automountServiceAccountToken": True},
        {"secrets": [{"name": "s"}]},
        {"imagePullSecrets": [{"name": "s"}]},
    ],
)
async def test_an_account_that_was_given_something_is_put_back(given):
    world = SessionWorld()
    world.ready()
    powerless = {"automountServiceAccountToken": False, "metadata": {"resourceVersion": "61"}}
    key, kind = world.key("Namespace", "", "web"), registry.KINDS_BY_NAME["Namespace"]
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT, **powerless)
    await namespaces.reconcile_namespace(kind, key, world.session)
    assert not world.below.writes("ServiceAccount")
    world.session.expectations.clear()  # of the namespace itself
    changed = {**powerless, "metadata": {"resourceVersion": "62"}, **given}
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT, **changed)
    await namespaces.reconcile_namespace(kind, key, world.session)
    assert world.below.writes("ServiceAccount") == [
        ("patch", "ServiceAccount", names.WORKLOAD_ACCOUNT)
    ]
    body = world.below.bodies[-1]
    assert body["automountServiceAccountToken"] is False
    assert body["secrets"] is body["imagePullSecrets"] is None


async def test_writes_of_a_namespaces_account_are_counted():
    world = SessionWorld()
    key = world.key("Namespace", "", "web")
    world.tenant_has("Namespace", "web", namespace="")
    kind = registry.KINDS_BY_NAME["Namespace"]
    assert kind.build is not None
    twin = kind.build(world.session.stores["Namespace"].list()[0].decode(), world.session.view)
    put(
        world.super_cluster.stores["Namespace"],
        twin | {"metadata": {**twin["metadata"], "uid": "b", "resourceVersion": "60"}},
    )
    await namespaces.reconcile_namespace(kind, key, world.session)
    assert world.below.writes() == [("create", "ServiceAccount", names.WORKLOAD_ACCOUNT)]
    assert is_counted(world, key, 1)
