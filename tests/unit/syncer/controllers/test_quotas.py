"""Held objects, the report in the tenant, and the quota's objects in super namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.controller.worker import Done, NotReadyYet
from syncer.controllers import quotas
from syncer.controllers.reverted_edits import SYNC_REVERTED
from syncer.handlers import tenant_events
from syncer.handlers.dispatcher import Dispatcher
from syncer.model.keys import HOME, LIMIT_RANGE, QUOTA_REPORT, RESOURCE_QUOTA, TOKEN
from syncer.safety.quota_accounting import QUOTA_EXCEEDED, QuotaExceededError
from tenancy import names
from tenancy.policies import TenantPolicySpec
from tenancy.policy.quotas import parse_hard
from tests.support.syncer.sessions import TENANT, SessionWorld

PORTS: dict[str, Any] = {"type": "ClusterIP", "clusterIP": "10.96.8.9", "ports": [{"port": 80}]}


def limited(**quota: Any) -> SessionWorld:
    """Return a world whose tenant has a quota."""
    world = SessionWorld(TenantPolicySpec(quota=quota))
    world.session.quota.set_hard(parse_hard(quota))
    world.ready()
    return world


def dispatcher(world: SessionWorld) -> Dispatcher:
    """Return a dispatcher with the one session."""
    return Dispatcher({HOME: {TENANT.uid: world.session}})


async def test_an_object_over_the_quota_is_not_written_and_its_tenant_reads_why():
    world = limited(services=0)
    world.tenant_has("Service", "web", spec=PORTS)
    key = world.key("Service", "web", "web")
    assert await dispatcher(world).reconcile(key) == Done()
    assert world.below.writes() == []
    assert world.told() == [QUOTA_EXCEEDED]
    message = world.above.bodies[-1]["message"]
    assert "services: requested 1, used 0, limit 0" in message
    assert "spec.quota" in message
    assert await dispatcher(world).reconcile(key) == Done()
    assert world.told() == [QUOTA_EXCEEDED]  # once
    world.session.quota.set_hard(parse_hard({"services": 1}))
    assert await dispatcher(world).reconcile(key) == Done()
    assert world.below.writes() == [("create", "Service", "web")]


async def test_an_object_that_is_deleted_leaves_its_place():
    world = limited(services=0)
    world.tenant_has("Service", "web", spec=PORTS)
    key = world.key("Service", "web", "web")
    await dispatcher(world).reconcile(key)
    assert world.session.quota.waiting_count == 1
    world.session.stores["Service"].discard(
        world.session.stores["Service"].list("web")[0], live=True
    )
    await dispatcher(world).reconcile(key)
    assert world.session.quota.waiting_count == 0


async def test_pods_read_why_a_token_is_held():
    world = limited(secrets=0)
    world.tenant_has("Pod", "p", spec={"containers": []})
    token = world.key(TOKEN, "web", "vc-token-x")
    world.session.work.add_waiter(token, world.key("Pod", "web", "p"))
    with pytest.raises(QuotaExceededError) as refused:
        world.session.quota.reserve(token, {"secrets": 1000})
    assert await quotas.hold_key(token, refused.value, world.session) == Done()
    assert world.told() == [QUOTA_EXCEEDED]
    assert world.above.bodies[-1]["involvedObject"]["name"] == "p"
    assert world.session.work.waiters.list_waiters(token)  # it goes on waiting


async def test_a_pod_reads_that_its_config_map_is_held():
    world = limited(configmaps=0)
    world.tenant_has("ConfigMap", "m", data={"k": "v"})
    volumes = [{"name": "v", "configMap": {"name": "m"}}]
    containers = [{"name": "c", "image": "i"}]
    spec = {"volumes": volumes, "containers": containers, "automountServiceAccountToken": False}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    await dispatcher(world).reconcile(world.key("ConfigMap", "web", "m"))
    with pytest.raises(NotReadyYet):
        await dispatcher(world).reconcile(world.key("Pod", "web", "p"))
    assert world.told() == [QUOTA_EXCEEDED, QUOTA_EXCEEDED]
    assert "waits for ConfigMap m" in world.above.bodies[-1]["message"]
    assert world.below.writes() == []


async def test_the_report_shows_what_is_used_and_is_written_on_a_difference_only():
    world = limited(services=5)
    world.tenant_has("Namespace", "kube-public", namespace="")
    world.above.has("Namespace", "kube-public", {})
    world.session.quota.reserve(world.key("Service", "web", "a"), {"services": 2000})
    key = world.key(QUOTA_REPORT, "", "")
    assert await quotas.reconcile_report(key, world.session) == Done()
    body = world.above.bodies[-1]
    assert body["metadata"] == {"name": names.QUOTA, "namespace": "kube-public"}
    assert body["data"] == {
        "hard": "services: 5\n",
        "used": "services: 2\n",
        "left": "services: 3\n",
        "waitingObjects": "0",
        "waiting": "",
    }
    world.tenant_has("ConfigMap", names.QUOTA, "kube-public", data=body["data"])
    sent = len(world.above.writes())
    await quotas.reconcile_report(key, world.session)
    assert len(world.above.writes()) == sent
    world.session.quota.set_hard({})
    await quotas.reconcile_report(key, world.session)
    assert world.above.writes()[-1] == ("delete", "ConfigMap", names.QUOTA)


@pytest.mark.parametrize(
    ("data", "version", "reverted"),
    [
        ({"hard": "services: 9\n"}, "999000", True),
        ({"hard": "services: 9\n", "mine": "1"}, "999000", True),
        ({"mine": "1"}, "999000", False),
        ({"hard": "services: 9\n"}, "1", False),  # an older state
    ],
)
async def test_an_edit_of_the_report_is_reverted_with_an_event(
    data: dict[str, str], version: str, reverted: bool
):
    world = limited(services=5)
    world.tenant_has("Namespace", "kube-public", namespace="")
    world.above.has("Namespace", "kube-public", {})
    key = world.key(QUOTA_REPORT, "", "")
    await quotas.reconcile_report(key, world.session)
    assert world.told() == []
    edited = {**world.above.bodies[-1]["data"], **data}
    world.tenant_has(
        "ConfigMap", names.QUOTA, "kube-public", data=edited, metadata={"resourceVersion": version}
    )
    # The usage may change at the same time.
    world.session.quota.reserve(world.key("Service", "web", "a"), {"services": 2000})
    await quotas.reconcile_report(key, world.session)
    assert world.told() == [SYNC_REVERTED] * reverted


async def test_a_report_that_the_tenant_deleted_is_made_again_with_an_event():
    world = limited(services=5)
    world.tenant_has("Namespace", "kube-public", namespace="")
    world.above.has("Namespace", "kube-public", {})
    key = world.key(QUOTA_REPORT, "", "")
    tenant_events.TenantEvents(world.session).subscribe()
    await quotas.reconcile_report(key, world.session)
    gone = world.tenant_has("ConfigMap", names.QUOTA, "kube-public")
    world.session.stores["ConfigMap"].discard(gone, live=True)
    world.above.lacks("ConfigMap", names.QUOTA)
    await quotas.reconcile_report(key, world.session)
    assert world.told() == [SYNC_REVERTED]


async def test_a_super_namespace_gets_the_quota_and_defaults_for_requests():
    world = limited(**{"requests.cpu": "4", "configmaps": 10, "bytes/secrets": "1Mi"})
    for kind in (RESOURCE_QUOTA, LIMIT_RANGE):
        key = world.key(kind, "web", names.QUOTA)
        assert await quotas.reconcile_namespace_quota(key, world.session) == Done()
    quota, ranges = world.below.bodies[-2:]
    # One ConfigMap of each namespace is the super cluster's own.
    assert quota["spec"] == {"hard": {"requests.cpu": "4", "configmaps": "11"}}
    assert ranges["spec"] == {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}
    assert TENANT.owns(quota["metadata"])


async def test_an_edited_quota_is_restored_and_one_without_a_policy_is_deleted():
    world = limited(pods=4)
    key = world.key(RESOURCE_QUOTA, "web", names.QUOTA)
    world.super_has(RESOURCE_QUOTA, names.QUOTA, uid="web-uid", spec={"hard": {"pods": "400"}})
    quotas.enqueue_namespace_quota("web", world.session)
    assert world.session.queue.take() == key
    await quotas.reconcile_namespace_quota(key, world.session)
    assert world.below.writes() == [("replace", RESOURCE_QUOTA, names.QUOTA)]
    assert world.below.bodies[-1]["spec"] == {"hard": {"pods": "4"}}
    world = limited()
    world.super_has(RESOURCE_QUOTA, names.QUOTA, uid="web-uid", spec={"hard": {"pods": "4"}})
    await quotas.reconcile_namespace_quota(key, world.session)
    assert world.below.writes() == [("delete", RESOURCE_QUOTA, names.QUOTA)]


async def test_the_default_quota_needs_no_object_of_kubernetes():
    world = SessionWorld()
    world.ready()
    for kind in (RESOURCE_QUOTA, LIMIT_RANGE):
        await quotas.reconcile_namespace_quota(world.key(kind, "web", names.QUOTA), world.session)
    assert world.below.writes() == []
