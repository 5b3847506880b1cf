"""Reconciler of namespaces and of their default service accounts."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.controllers import namespaces
from syncer.model.keys import TOKEN
from syncer.rules import registry
from tenancy import names, wellknown
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


async def test_a_namespace_whose_secrets_are_refused_is_bound_and_watched_again(monkeypatch):
    world = SessionWorld()
    world.ready()
    cluster, key = world.super_cluster, world.key("Namespace", "", "web")
    below = world.session.view.get_super_namespace("web")
    powerless = {"automountServiceAccountToken": False, "metadata": {"resourceVersion": "61"}}
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT, **powerless)
    kind, retried = registry.KINDS_BY_NAME["Namespace"], []
    monkeypatch.setattr(cluster.secrets, "start", retried.append)

    async def fetch_subject():
        return {"kind": "ServiceAccount", "name": "vc-syncer", "namespace": "vc-manager"}

    monkeypatch.setattr(cluster, "fetch_subject", fetch_subject)
    await namespaces.reconcile_namespace(kind, key, world.session)
    assert not world.below.writes("RoleBinding")  # nothing is known against it
    monkeypatch.setattr(cluster.secrets, "is_refused", lambda namespace: namespace == below)
    world.session.expectations.clear()
    await namespaces.reconcile_namespace(kind, key, world.session)
    assert world.below.writes("RoleBinding") == [("create", "RoleBinding", "vc-syncer")]
    body = world.below.bodies[-1]
    assert body["metadata"]["namespace"] == below
    assert body["roleRef"]["name"] == wellknown.SYNCER_NAMESPACE_ROLE
    assert body["subjects"] == [await fetch_subject()]
    assert retried == [below]


@pytest.mark.parametrize(("kind", "waits"), [("Secret", True), (TOKEN, True), ("ConfigMap", False)])
def test_secrets_wait_until_those_of_their_namespace_may_be_read(monkeypatch, kind, waits):
    world = SessionWorld()
    world.ready()
    session, key = world.session, world.key(kind, "web", "app")
    powerless = {"automountServiceAccountToken": False}
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT, **powerless)
    assert session.namespaces.get_ready(key)
    monkeypatch.setattr(session.super_cluster.secrets, "is_readable", lambda _: False)
    if waits:
        with pytest.raises(NotReadyYet):
            session.namespaces.get_ready(key)
    else:
        assert session.namespaces.get_ready(key)
