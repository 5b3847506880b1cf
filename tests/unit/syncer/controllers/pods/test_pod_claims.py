"""The wait of a pod for its ResourceClaims, with two API servers in memory."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.controller.worker import Done, NotReadyYet
from syncer.controllers.pods import pod_claims
from syncer.handlers.dispatcher import Dispatcher
from syncer.model.keys import HOME
from syncer.safety.quota_accounting import QUOTA_EXCEEDED
from tenancy.policies import TenantPolicySpec
from tenancy.policy.quotas import parse_hard
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.support.syncer.sessions import TENANT, SessionWorld

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "web-uid", "controller": True}


def build_rule(group: str = "resource.k8s.io") -> SyncRule:
    """Return a rule for claims."""
    resource = {"group": group, "version": "v1", "kind": "ResourceClaim", "plural": "claims"}
    spec = {"resource": resource, "direction": "Down", "fields": ["spec.size"]}
    return parse_sync_rule({"metadata": {"name": "claims", "uid": "r"}, "spec": spec})


def build_world(*rules: SyncRule) -> SessionWorld:
    """Return a world with rules and a namespace that is ready."""
    world = SessionWorld(rules=list(rules))
    world.ready()
    return world


async def wait(world: SessionWorld, *, generated: str | None = None, **source: str) -> None:
    """Let a pod wait for its claim. `generated` is the claim that its status names."""
    statuses = [{"name": "gpu", "resourceClaimName": generated}] if generated else []
    pod: Any = world.tenant_has(
        "Pod",
        "web",
        spec={"containers": [], "resourceClaims": [{"name": "gpu", **source}]},
        status={"resourceClaimStatuses": statuses},
    )
    key = world.session.build_key("Pod", "web", "web")
    await pod_claims.wait_for_claims(key, pod, pod.decode(), world.session)


def list_messages(world: SessionWorld) -> list[str]:
    """Return the messages of Events in the tenant."""
    found = [each for each in world.above.bodies if each and each.get("kind") == "Event"]
    return [str(each.get("note") or each.get("message")) for each in found]


async def test_without_a_rule_no_claim_is_looked_up():
    for world in (build_world(), build_world(build_rule("example.io"))):
        assert not pod_claims.is_offered(world.session)
        await wait(world, resourceClaimName="mine")


async def test_a_missing_claim_is_reported_and_enqueues_the_pod():
    world = build_world(build_rule())
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimName="mine")
    assert "the ResourceClaim mine, does not exist. Create it" in list_messages(world)[0]
    claim = world.session.build_key("ResourceClaim", "web", "mine")
    assert world.session.work.waiters.list_waiters(claim)


async def test_a_claim_that_is_refused_is_named_and_one_in_work_is_not():
    world = build_world(build_rule())
    world.tenant_has("ResourceClaim", "mine", spec={"size": "s"})
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimName="mine")
    assert not list_messages(world)
    changed = {"resourceVersion": "51"}
    world.tenant_has("ResourceClaim", "mine", metadata=changed, spec={"config": ["x"]})
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimName="mine")
    assert "the ResourceClaim mine, is not synced" in list_messages(world)[0]


async def test_a_claim_over_the_quota_is_not_written_and_its_pod_reads_why():
    name = "gpu.deviceclass.resource.k8s.io/devices"
    quota = {name: 1}
    resource = {
        "group": "resource.k8s.io",
        "version": "v1",
        "kind": "ResourceClaim",
        "plural": "resourceclaims",
    }
    spec: dict[str, Any] = {
        "resource": resource,
        "direction": "Down",
        "fields": ["spec.devices.**"],
    }
    rule = parse_sync_rule({"metadata": {"name": "claims", "uid": "r"}, "spec": spec})
    world = SessionWorld(TenantPolicySpec(quota=quota), rules=[rule])
    world.session.quota.set_hard(parse_hard(quota))
    world.ready()
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    world.tenant_has("ResourceClaim", "mine", spec={"devices": {"requests": [request]}})
    key = world.session.build_key("ResourceClaim", "web", "mine")
    dispatcher = Dispatcher({HOME: {TENANT.uid: world.session}})
    assert await dispatcher.reconcile(key) == Done()
    assert world.below.writes() == []
    assert world.told() == [QUOTA_EXCEEDED]
    assert f"{name}: requested 32, used 0, limit 1" in list_messages(world)[0]
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimName="mine")
    assert world.told() == [QUOTA_EXCEEDED, QUOTA_EXCEEDED]
    assert "waits for ResourceClaim mine" in list_messages(world)[1]
    world.session.quota.set_hard(parse_hard({name: 32}))
    assert await dispatcher.reconcile(key) == Done()
    assert world.below.writes() == [("create", "ResourceClaim", "mine")]
    assert world.session.quota.get_used(name) == 32_000


async def test_a_pod_does_not_wait_for_the_copy_of_its_claim():
    world = build_world(build_rule())
    world.tenant_has("ResourceClaim", "mine", spec={"size": "s"})
    world.super_has("ResourceClaim", "mine", spec={"size": "s"})
    await wait(world, resourceClaimName="mine")


async def test_a_claim_of_a_template_must_be_the_pods_own():
    world = build_world(build_rule())
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimTemplateName="each")
    assert not list_messages(world)
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimTemplateName="each", generated="../other")
    world.tenant_has("ResourceClaim", "web-gpu-x", spec={"size": "s"})
    world.super_has("ResourceClaim", "web-gpu-x", spec={"size": "s"})
    with pytest.raises(NotReadyYet):
        await wait(world, resourceClaimTemplateName="each", generated="web-gpu-x")
    assert "was not created for this pod" in list_messages(world)[0]
    owned = {"ownerReferences": [OWNER], "resourceVersion": "51"}
    world.tenant_has("ResourceClaim", "web-gpu-x", metadata=owned, spec={"size": "s"})
    await wait(world, resourceClaimTemplateName="each", generated="web-gpu-x")
