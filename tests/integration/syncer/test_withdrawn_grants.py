"""A target that loses its pods, and one whose grant is withdrawn, on two real API servers."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import Object
from kubeio.errors import NotFound
from syncer.controllers.nodes import drain, target_lease
from syncer.controllers.pods import split_services
from syncer.safety.pod_loss_guard import MIN_MISSING_PODS
from tenancy import conditions, wellknown
from tenancy.resources import (
    LEASES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    SUPER_CLUSTERS,
    VIRTUAL_CLUSTERS,
)
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import TargetWorld
from tests.integration.syncer.test_assigned_clusters import (  # noqa: F401 - fixtures
    THERE,
    condition,
    own_plane,
    second,
    target_world,
    tenant,
)
from tests.integration.syncer.world import HOME
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}


async def run_pods(target_world: TargetWorld, *names: str, owner: str = "") -> str:  # noqa: F811
    """Have pods run there. Returns their namespace."""
    space = await target_world.world.namespace()
    for name in names:
        body = pod(name, nodeSelector=THERE)
        body["metadata"]["labels"]["part"] = "all"
        if owner:
            body["metadata"]["ownerReferences"] = [{**OWNER, "uid": owner}]
        await target_world.world.tenant_client.create(PODS, body, namespace=space)
        await target_world.start_pod(space, name)
        await eventually(
            lambda name=name: target_world.world.tenant_client.get(PODS, name, namespace=space),
            until=lambda found: condition(found, "Ready") == "True",
        )
    return space


async def said(target_world: TargetWorld, kind: str) -> Any:  # noqa: F811
    """Return a condition of the SuperCluster."""
    body = await target_world.world.super_client.get(SUPER_CLUSTERS, target_world.name)
    return conditions.find_condition((body.get("status") or {}).get("conditions"), kind)


async def listed(target_world: TargetWorld) -> Object:  # noqa: F811
    """Return what the VirtualCluster's status says of it, empty when nothing."""
    tenant_of = target_world.world.tenant
    body = await target_world.world.super_client.get(
        VIRTUAL_CLUSTERS, tenant_of.name, namespace=tenant_of.namespace
    )
    found = (body.get("status") or {}).get("targets") or []
    return next((each for each in found if each["name"] == target_world.name), {})


async def is_gone(target_world: TargetWorld, resource: Any, name: str, namespace: str = "") -> bool:  # noqa: F811
    try:
        await target_world.world.tenant_client.get(resource, name, namespace=namespace)
    except NotFound:
        return True
    return False


async def test_many_missing_pods_are_lost_only_after_a_confirmation(
    target_world: TargetWorld,  # noqa: F811
):
    """X-38, X-19: the same cluster, with a store that was set back."""
    await target_world.granted()
    names = [f"p{number}" for number in range(MIN_MISSING_PODS)]
    space = await run_pods(target_world, *names)
    await eventually(
        lambda: said(target_world, "Followed"), until=lambda c: c and c["status"] == "True"
    )
    await target_world.world.super_client.delete(SECRETS, target_world.name, namespace=HOME)
    await eventually(lambda: target_world.target() is None)
    super_space = target_world.world.super_namespace(space)
    for name in names:
        await target_world.target_client.delete(PODS, name, namespace=super_space, grace_seconds=0)
    await target_world.secret()
    held = await eventually(
        lambda: said(target_world, "LossesHeld"),
        until=lambda c: c and c["status"] == "True",
        within=60,
    )
    assert f"{MIN_MISSING_PODS} of the {MIN_MISSING_PODS} pods" in held["message"]
    await target_world.world.tenant_client.delete(PODS, "p1", namespace=space)
    await target_world.world.idle()
    for name in names:
        found = await target_world.world.tenant_client.get(PODS, name, namespace=space)
        assert found["status"]["phase"] == "Running", "nothing is concluded"
    losses = (await target_world.world.super_client.get(SUPER_CLUSTERS, target_world.name))[
        "status"
    ]["losses"]
    assert (losses["missing"], losses["total"]) == (MIN_MISSING_PODS, MIN_MISSING_PODS)
    word = {wellknown.CONFIRM_LOSSES: losses["state"]}
    await target_world.world.super_client.patch(
        SUPER_CLUSTERS, target_world.name, {"metadata": {"annotations": word}}
    )
    await eventually(
        lambda: target_world.world.tenant_client.get(PODS, "p0", namespace=space),
        until=lambda found: found["status"]["phase"] == "Failed",
        within=60,
    )
    await eventually(lambda: is_gone(target_world, PODS, "p1", space), within=60)
    await eventually(
        lambda: said(target_world, "LossesHeld"), until=lambda c: c and c["status"] == "False"
    )
    body = await target_world.world.super_client.get(SUPER_CLUSTERS, target_world.name)
    assert wellknown.CONFIRM_LOSSES not in (body["metadata"].get("annotations") or {}), "used up"
    assert "losses" not in body["status"]


async def test_its_node_has_a_lease_that_ends_with_its_answers(
    target_world: TargetWorld,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
):
    """V-01, V-02."""
    monkeypatch.setattr("syncer.clusters.target_cluster.HEALTH_CHECK_SECONDS", 0.2)
    monkeypatch.setattr(target_lease, "RENEW_SECONDS", 0.3)
    await target_world.granted()

    async def renewed() -> str:
        lease = await target_world.world.tenant_client.get(
            LEASES, target_world.node, namespace="kube-node-lease"
        )
        return str(lease["spec"]["renewTime"])

    first = await eventually(renewed)
    await eventually(renewed, until=lambda now: now != first)
    target = target_world.target()
    assert target is not None
    target_world.plane.pause_apiserver()
    try:
        await eventually(lambda: target.problem, within=30)
        last = await renewed()
        before = target_world.world.mark("tenant")
        await eventually(lambda: target.get_unreachable_seconds() > 2, within=30)
        assert await renewed() == last
        assert [
            w for w in target_world.world.writes("tenant", before) if w.resource == "leases"
        ] == []
    finally:
        target_world.plane.resume_apiserver()
    await eventually(renewed, until=lambda now: now != last, within=60)


async def test_a_grant_that_goes_drains_its_target_as_budgets_let_it(
    target_world: TargetWorld,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
):
    """A1-16, X-02: cordon, drain, remove. The status says how far that is."""
    monkeypatch.setattr(drain, "BUDGET_RETRY_SECONDS", 0.3)
    monkeypatch.setattr("syncer.lifecycle.target_statuses.STATUS_INTERVAL_SECONDS", 0.2)
    monkeypatch.setattr("syncer.lifecycle.target_sessions.RETRY_SECONDS", 0.5)
    world = target_world.world
    await world.super_node()
    await target_world.granted()
    space = await run_pods(target_world, "owned", owner="rs-1")
    await eventually(lambda: listed(target_world), until=lambda t: t.get("pods") == 1)
    assert (await listed(target_world))["phase"] == "Granted"
    budget = {
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"part": "all"}}},
    }
    made = await world.tenant_client.create(POD_DISRUPTION_BUDGETS, budget, namespace=space)
    counted = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }

    async def allow(number: int) -> None:
        await world.tenant_client.patch(
            POD_DISRUPTION_BUDGETS,
            "all",
            {"status": {**counted, "disruptionsAllowed": number}},
            namespace=space,
            subresource="status",
        )

    await allow(0)
    bare = await run_pods(target_world, "bare")
    await target_world.grant({"name": "home"})
    await eventually(lambda: listed(target_world), until=lambda t: t.get("phase") == "Draining")
    node = await eventually(
        lambda: world.tenant_client.get(NODES, target_world.node),
        until=lambda found: found["spec"].get("unschedulable"),
    )
    assert node["metadata"]["annotations"][wellknown.CORDONED] == "true"
    events = await eventually(
        lambda: world.events(space),
        until=lambda es: drain.EVICTION_BLOCKED in [e["reason"] for e in es],
    )
    assert [e["reason"] for e in events].count(drain.EVICTION_BLOCKED) == 1
    await eventually(
        lambda: world.events(bare),
        until=lambda es: [e["reason"] for e in es] == [drain.TARGET_WITHDRAWN],
    )
    found = await world.tenant_client.get(PODS, "owned", namespace=space)
    assert "deletionTimestamp" not in found["metadata"]
    await allow(1)
    await target_world.remove_pod(space, "owned")
    await eventually(lambda: is_gone(target_world, PODS, "owned", space))
    await eventually(lambda: listed(target_world), until=lambda t: t.get("pods") == 1)
    assert not await is_gone(target_world, PODS, "bare", bare)
    assert not await is_gone(target_world, NODES, target_world.node)
    await world.tenant_client.delete(PODS, "bare", namespace=bare)
    await target_world.remove_pod(bare, "bare")
    await eventually(lambda: is_gone(target_world, NODES, target_world.node), within=30)
    await eventually(lambda: listed(target_world), until=lambda t: t == {}, within=30)


async def test_a_service_with_pods_in_two_clusters_reports_it_once(target_world: TargetWorld):  # noqa: F811
    world = target_world.world
    node = await world.super_node()
    await target_world.granted()
    space = await run_pods(target_world, "there")
    service = {
        "metadata": {"name": "s"},
        "spec": {"selector": {"part": "all"}, "ports": [{"port": 80}]},
    }
    await world.tenant_client.create(SERVICES, service, namespace=space)
    await eventually(lambda: world.twin(SERVICES, space, "s"))
    for name in ("here", "here-too"):
        body = pod(name)
        body["metadata"]["labels"]["part"] = "all"
        body["metadata"]["annotations"] = {wellknown.ASSIGNED_CLUSTER: "home/0"}
        await world.tenant_client.create(PODS, body, namespace=space)
        await eventually(lambda name=name: world.twin(PODS, space, name))
        await world.start_pod(space, name, node)
    await world.idle()
    events = await eventually(lambda: world.events(space))
    found = [e for e in events if e["reason"] == split_services.PODS_IN_SEVERAL_CLUSTERS]
    assert [e["involvedObject"]["name"] for e in found] == ["s"]
