"""Pods in a target that are evicted, failed, refused, or deleted with their dependencies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kubeio import Object
from syncer.controllers.nodes import target_node_reconciler
from syncer.controllers.pods import unreachable_target
from syncer.lifecycle import target_outages, target_statuses
from tenancy import names
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SECRETS,
    Resource,
)
from tests.integration.syncer.control_planes import begin_tenant, tenant_plane
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.target_world import TargetWorld
from tests.integration.syncer.test_assigned_clusters import (
    SLICE_OF_ITS_OWN,
    THERE,
    condition,
    second,
    target_world,
    tenant,
    why,
)
from tests.integration.syncer.test_withdrawn_grants import is_gone, run_pods
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.doubles import ObservedDoubles, observe
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address
__all__ = ["second", "target_world", "tenant"]

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
# The one that evicts by taints finds pods by an index that the one of DaemonSets makes, where the
# one that watches over nodes is off.
EVICTION = ("taint-eviction-controller", "daemonset-controller", "replicaset-controller")


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A tenant with the controllers that evict by taints and replace pods, as the product's."""
    folder = tmp_path_factory.mktemp("split")
    plane = tenant_plane(folder, "split", SLICE_OF_ITS_OWN, controllers=EVICTION)
    with serving(plane, begin=begin_tenant):
        yield plane


def replica_set(name: str, **spec: Any) -> Object:
    """Return a ReplicaSet of one."""
    template = pod(name, **spec)
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


async def pods_of(target_world: TargetWorld, space: str) -> list[Object]:
    """Return the tenant's pods that are not going."""
    found = (await target_world.world.tenant_client.list(PODS, namespace=space))["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


async def one_runs(target_world: TargetWorld, space: str, *, not_uid: str = "") -> Object:
    """Have the pod of a ReplicaSet run in the target, and return it."""
    found = await eventually(
        lambda: pods_of(target_world, space),
        until=lambda all_: [each for each in all_ if each["metadata"]["uid"] != not_uid],
    )
    name = next(e["metadata"]["name"] for e in found if e["metadata"]["uid"] != not_uid)
    await target_world.start_pod(space, name)
    return await eventually(
        lambda: target_world.world.tenant_client.get(PODS, name, namespace=space),
        until=lambda body: condition(body, "Ready") == "True",
    )


async def test_an_eviction_there_takes_the_pod_with_its_reason_and_another_is_made(
    target_world: TargetWorld,
):
    """A0-22: what goes there goes in the tenant, in the words of the eviction."""
    await target_world.granted({"name": target_world.name})
    world, space = target_world.world, await target_world.world.namespace()
    await world.tenant_client.create(REPLICA_SETS, replica_set("web"), namespace=space)
    first = await one_runs(target_world, space)
    name, super_space = first["metadata"]["name"], world.super_namespace(space)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    conditions = [*running_status(name)["conditions"], evicted]
    await target_world.target_client.patch(
        PODS,
        name,
        {"status": {"conditions": conditions}},
        namespace=super_space,
        subresource="status",
    )
    await target_world.target_client.delete(PODS, name, namespace=super_space, grace_seconds=20)
    going = await eventually(
        lambda: world.tenant_client.get(PODS, name, namespace=space),
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    assert going["metadata"]["deletionGracePeriodSeconds"] == 20
    (why_it_goes,) = [c for c in going["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (why_it_goes["status"], why_it_goes["reason"]) == ("True", "EvictionByEvictionAPI")
    await target_world.remove_pod(space, name)
    await eventually(lambda: is_gone(target_world, PODS, name, space))
    second_one = await one_runs(target_world, space, not_uid=first["metadata"]["uid"])
    assert second_one["spec"]["nodeName"] == target_world.node


async def test_a_pod_that_a_node_there_evicts_stays_as_it_ended(target_world: TargetWorld):
    """A0-22: of those that no one recreates the tenant keeps what was said."""
    await target_world.granted()
    world, space = target_world.world, await run_pods(target_world, "web")
    text = "The node was low on resource: memory."
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    status = {"phase": "Failed", "reason": "Evicted", "message": text, "conditions": [evicted]}
    await target_world.target_client.patch(
        PODS,
        "web",
        {"status": status},
        namespace=world.super_namespace(space),
        subresource="status",
    )
    ended = await eventually(
        lambda: world.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"]["phase"] == "Failed",
    )
    assert (ended["status"]["reason"], ended["status"]["message"]) == ("Evicted", text)
    assert evicted["reason"] in {each.get("reason") for each in ended["status"]["conditions"]}
    await world.idle()
    kept = await world.tenant_client.get(PODS, "web", namespace=space)
    assert "deletionTimestamp" not in kept["metadata"]
    assert (kept["status"], kept["spec"]["nodeName"]) == (ended["status"], target_world.node)
    assert await target_world.has_twin(space, "web")


async def test_what_a_pod_needs_goes_with_it_and_what_guards_its_namespace_too(
    target_world: TargetWorld,
):
    """The Secret and the token go with the pod that refers to them, the namespace with the last."""
    await target_world.granted()
    world, space = target_world.world, await target_world.world.namespace()
    rule = {"podSelector": {}, "policyTypes": ["Ingress"]}
    policy = {"metadata": {"name": "shut"}, "spec": rule}
    await world.tenant_client.create(NETWORK_POLICIES, policy, namespace=space)
    secret = {"metadata": {"name": "keys"}, "stringData": {"k": "v"}}
    await world.tenant_client.create(SECRETS, secret, namespace=space)
    volume = {"name": "keys", "secret": {"secretName": "keys"}}
    await world.tenant_client.create(
        PODS, pod("refers", nodeSelector=THERE, volumes=[volume]), namespace=space
    )
    bare = pod("bare", nodeSelector=THERE, automountServiceAccountToken=False)
    await world.tenant_client.create(PODS, bare, namespace=space)
    twin = await eventually(lambda: target_world.twin(space, "refers"))
    await eventually(lambda: target_world.twin(space, "bare"))
    assert (await target_world.twin(space, "keys", SECRETS))["data"] == {"k": "dg=="}
    (token,) = tokens_of(twin)
    assert token.startswith(names.TOKEN_SECRET_PREFIX)
    await target_world.twin(space, token, SECRETS)
    await target_world.twin(space, names.SUPER_ROOT_CA, CONFIG_MAPS)
    super_space = world.super_namespace(space)
    there = (await target_world.target_client.get(NAMESPACES, super_space))["metadata"]["labels"]
    assert there["pod-security.kubernetes.io/enforce"] == "baseline"
    await eventually(lambda: target_world.twin(space, "shut", NETWORK_POLICIES))
    await world.tenant_client.delete(PODS, "refers", namespace=space)
    await eventually(lambda: is_gone(target_world, PODS, "refers", space))
    for resource, name in ((SECRETS, "keys"), (SECRETS, token), (CONFIG_MAPS, names.SUPER_ROOT_CA)):
        await eventually(lambda r=resource, n=name: lacks(target_world, space, n, r))
    await world.idle()
    assert (
        "deletionTimestamp"
        not in (await target_world.target_client.get(NAMESPACES, super_space))["metadata"]
    )
    assert await target_world.has_twin(space, "bare")
    assert await target_world.has_twin(space, "shut", NETWORK_POLICIES)


async def lacks(target_world: TargetWorld, space: str, name: str, resource: Resource) -> bool:
    return not await target_world.has_twin(space, name, resource)


def tokens_of(twin: Object) -> list[str]:
    """Return the Secrets of the tokens that a pod mounts."""
    projected = [each["projected"] for each in twin["spec"]["volumes"] if "projected" in each]
    return [s["secret"]["name"] for each in projected for s in each["sources"] if "secret" in s]


async def test_where_the_quota_is_used_up_the_next_cluster_is_tried(target_world: TargetWorld):
    world = target_world.world
    await world.super_node()
    await target_world.granted(
        {"name": "home", "weight": 1}, {"name": target_world.name, "weight": 1000}
    )
    space = await world.namespace()
    await world.tenant_client.create(PODS, pod("first"), namespace=space)
    await eventually(lambda: target_world.twin(space, "first"))
    super_space = world.super_namespace(space)
    await target_world.target_client.create(
        RESOURCE_QUOTAS,
        {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}},
        namespace=super_space,
    )
    used = {"hard": {"pods": "1"}, "used": {"pods": "1"}}  # as no controller counts here
    await target_world.target_client.patch(
        RESOURCE_QUOTAS, "q", {"status": used}, namespace=super_space, subresource="status"
    )
    await world.tenant_client.create(PODS, pod("next"), namespace=space)
    await eventually(lambda: world.twin(PODS, space, "next"))
    assert not await target_world.has_twin(space, "next")
    assert await target_world.has_twin(space, "first")
    refused = [
        e
        for e in target_world.plane.audit_events()
        if e["verb"] == "create"
        and e["objectRef"].get("namespace") == super_space
        and e["objectRef"]["resource"] == "pods"
        and e.get("responseStatus", {}).get("code") == 403
    ]
    assert refused, "it was tried there first"


async def test_who_is_replaced_while_a_target_is_away_is_not_touched_by_its_return(
    target_world: TargetWorld,
    monkeypatch: pytest.MonkeyPatch,
):
    """Evicted by the taint at its own time, made elsewhere. The stale twin goes by its UID."""
    monkeypatch.setattr("syncer.clusters.target_cluster.HEALTH_CHECK_SECONDS", 0.2)
    owners = (unreachable_target, target_node_reconciler, target_outages, target_statuses)
    for module in owners:
        monkeypatch.setattr(module, "UNREACHABLE_SECONDS", 1.0)
    world = target_world.world
    node = await world.super_node()
    await target_world.granted(
        {"name": "home", "weight": 1}, {"name": target_world.name, "weight": 1000}
    )
    space = await world.namespace()
    away = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    tolerations = [{**away, "tolerationSeconds": 2}]
    set_ = replica_set("web", tolerations=tolerations)
    await world.tenant_client.create(REPLICA_SETS, set_, namespace=space)
    first = await one_runs(target_world, space)
    super_space, name = world.super_namespace(space), first["metadata"]["name"]
    stale = await target_world.twin(space, name)
    await world.idle()
    since, seen = target_world.plane.audit_mark(), ObservedDoubles()
    watching = asyncio.create_task(
        observe((world.super_client, target_world.target_client), super_space, seen)
    )
    target_world.plane.pause_apiserver()
    try:
        going = await eventually(
            lambda: world.tenant_client.get(PODS, name, namespace=space),
            until=lambda body: "deletionTimestamp" in body["metadata"],
        )
        (by,) = [c for c in going["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert by["reason"] == "DeletionByTaintManager"
        found = await eventually(
            lambda: pods_of(target_world, space), until=lambda all_: len(all_) == 1
        )
        replacement = found[0]["metadata"]["name"]
        await world.start_pod(space, replacement, node)
        twin = await world.twin(PODS, space, replacement)
        assert not await is_gone(target_world, PODS, name, space), "it may run there yet"
    finally:
        target_world.plane.resume_apiserver()
    await target_world.remove_pod(space, name)
    await eventually(lambda: is_gone(target_world, PODS, name, space))
    await eventually(
        lambda: world.tenant_client.get(NODES, target_world.node),
        until=lambda body: condition(body, "Ready") == "True",
        within=60,
    )
    await world.idle()
    watching.cancel()
    (kept,) = await pods_of(target_world, space)
    assert kept["metadata"]["uid"] == found[0]["metadata"]["uid"]
    assert (await world.twin(PODS, space, replacement))["metadata"]["uid"] == (
        twin["metadata"]["uid"]
    )
    deletes = [e for e in target_world.plane.audit_events(since) if e["verb"] == "delete"]
    ours = [e for e in deletes if e["objectRef"]["resource"] == "pods" and e["user"]["username"]]
    told = {
        ((e.get("requestObject") or {}).get("preconditions") or {}).get("uid", "") for e in ours
    }
    assert told - {""} == {stale["metadata"]["uid"]}
    assert seen.twice == []
    assert seen.rounds


async def test_a_pod_with_a_claim_goes_home_or_is_reported_with_the_reason(
    target_world: TargetWorld,
):
    world = target_world.world
    await world.super_node()
    await target_world.granted(
        {"name": "home", "weight": 1}, {"name": target_world.name, "weight": 1000}
    )
    space = await world.namespace()
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await world.tenant_client.create(PODS, pod("without"), namespace=space)
    await eventually(lambda: target_world.twin(space, "without"))
    await world.tenant_client.create(PODS, pod("with", volumes=[claim]), namespace=space)
    seated = await eventually(
        lambda: world.tenant_client.get(PODS, "with", namespace=space),
        until=lambda body: body["metadata"].get("annotations") or {},
    )
    assert str(seated["metadata"]["annotations"]).count("home/") == 1
    await target_world.grant({"name": target_world.name})
    await eventually(lambda: set(world.session.connection.grants.granted) == {target_world.name})
    await world.tenant_client.create(PODS, pod("waits", volumes=[claim]), namespace=space)
    said = f"0/1 clusters are available: {target_world.name} does not support pods with claims yet."
    await eventually(lambda: why(world, space, "waits"), until=lambda text: text == said)
    assert not await target_world.has_twin(space, "waits")
