"""Objects that are synced back to tenants: nodes, Events, tokens and readiness gates."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import Unauthorized
from tenancy import names, wellknown
from tenancy.resources import EVENTS, NODES, PODS, SECRETS
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import HOME, SyncerWorld, SyncerWrite
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from vnagent.upstream.upstream_events import EventSubject, build_event

pytestmark = pytest.mark.thorough


@pytest.fixture
async def own(super_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    async with own_world(super_plane, tmp_path) as world:
        yield world


async def running_pod(world: SyncerWorld) -> tuple[str, str]:
    """Have a pod run on a node of its own."""
    space, node = await world.namespace(), await world.super_node()
    await world.tenant_client.create(PODS, pod("web"), namespace=space)
    await world.start_pod(space, "web", node)
    return space, node


def about(world: SyncerWorld, since: AuditMark, space: str, node: str) -> list[SyncerWrite]:
    """Return the writes in the tenant about a node and what is in its pod's namespace."""
    found = world.writes("tenant", since)
    return [write for write in found if write.namespace == space or write.name == node]


async def test_a_heartbeat_is_no_write_and_a_change_is_one(synced: SyncerWorld):
    space, node = await running_pod(synced)
    await synced.idle()
    since = synced.mark("tenant")

    async def condition(**fields: str) -> None:
        live = await synced.super_client.get(NODES, node)
        ready = {**live["status"]["conditions"][0], **fields}
        body = {"status": {"conditions": [ready]}}
        await synced.super_client.patch(NODES, node, body, subresource="status")

    await condition(lastHeartbeatTime="2026-02-02T00:00:00Z")
    await asyncio.sleep(0.3)
    await synced.idle()
    assert about(synced, since, space, node) == []
    await condition(status="False", reason="KubeletNotReady")
    shown = await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda body: body["status"]["conditions"][0]["status"] == "False",
    )
    assert shown["status"]["conditions"][0]["reason"] == "KubeletNotReady"
    await synced.idle()
    assert [write.verb for write in about(synced, since, space, node)] == ["patch"]


async def test_a_node_that_its_tenant_deleted_comes_back(synced: SyncerWorld):
    """V-04, REL-23: with all that is shown of it."""
    space, node = await running_pod(synced)
    shown = await synced.tenant_client.get(NODES, node)
    await synced.tenant_client.delete(NODES, node)
    back = await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda body: body["metadata"]["uid"] != shown["metadata"]["uid"],
    )
    await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda body: body["status"].get("addresses"),
    )
    assert back["metadata"]["labels"][wellknown.VIRTUAL_NODE] == "true"
    await synced.idle()
    since = synced.mark("tenant")
    await asyncio.sleep(0.3)
    assert about(synced, since, space, node) == []


async def test_a_node_goes_some_time_after_its_last_pod(synced: SyncerWorld):
    space, node = await running_pod(synced)
    await synced.tenant_client.delete(PODS, "web", namespace=space)
    assert await synced.tenant_client.get(NODES, node)
    await synced.remove_pod(space, "web")
    await gone(lambda: synced.tenant_client.get(NODES, node))


async def test_a_finished_pod_keeps_its_node(synced: SyncerWorld):
    space, node = await running_pod(synced)
    await synced.report(space, "web", phase="Succeeded")
    await asyncio.sleep(0.6)  # longer than a node lingers here
    await synced.idle()
    assert await synced.tenant_client.get(NODES, node)


async def test_a_super_node_that_is_gone_is_gone_here(synced: SyncerWorld):
    """REL-41: as soon as it is gone there."""
    _, node = await running_pod(synced)
    await synced.super_client.delete(NODES, node)
    await gone(lambda: synced.tenant_client.get(NODES, node))


async def test_a_node_of_the_tenants_own_making_is_filled_only_when_it_runs_a_pod(
    synced: SyncerWorld,
):
    node = await synced.super_node()
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": {wellknown.VIRTUAL_NODE: "true"}},
    }
    await synced.tenant_client.create(NODES, made)
    await asyncio.sleep(0.5)
    await synced.idle()
    live = await synced.tenant_client.get(NODES, node)
    assert not live["status"].get("addresses")


async def test_the_agents_address_follows_its_pod(synced: SyncerWorld):
    _, node = await running_pod(synced)
    agent = pod(f"agent-{node}")
    agent["metadata"]["labels"] = {"app.kubernetes.io/name": "vn-agent"}
    agent["spec"]["nodeName"] = node
    agent["spec"]["serviceAccountName"] = "default"
    await eventually(lambda: synced.super_client.create(PODS, agent, namespace=HOME))
    status = {"status": {"podIP": "10.244.9.9", "podIPs": [{"ip": "10.244.9.9"}]}}
    await synced.super_client.patch(
        PODS, f"agent-{node}", status, namespace=HOME, subresource="status"
    )
    await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda body: (
            {"type": wellknown.AGENT_ADDRESS, "address": "10.244.9.9"}
            in body["status"]["addresses"]
        ),
    )


async def test_a_condition_of_the_node_reports_which_way_its_agent_goes(own: SyncerWorld):
    """The Event that the agent records on its own pod, in its own words."""

    async def reads(status: str, reason: str) -> None:
        def says(body: Object) -> bool:
            found = {each["type"]: each for each in body["status"]["conditions"]}
            shown = found.get(wellknown.KUBELET_DIRECT) or {}
            return (shown.get("status"), shown.get("reason")) == (status, reason)

        await eventually(lambda: own.tenant_client.get(NODES, node), until=says)

    async with own.syncer():
        _, node = await running_pod(own)
        await reads("Unknown", "NoAgent")
        agent = pod(f"agent-{node}")
        agent["metadata"]["labels"] = {"app.kubernetes.io/name": "vn-agent"}
        agent["spec"]["nodeName"] = node
        agent["spec"]["serviceAccountName"] = "default"
        made = await eventually(lambda: own.super_client.create(PODS, agent, namespace=HOME))
        address = {"status": {"podIP": "10.244.9.8", "podIPs": [{"ip": "10.244.9.8"}]}}
        await own.super_client.patch(
            PODS, f"agent-{node}", address, namespace=HOME, subresource="status"
        )
        await reads("True", "Kubelet")
        uid = made["metadata"]["uid"]
        subject = EventSubject(name=f"agent-{node}", namespace=HOME, uid=uid, node=node)
        now = datetime.now(UTC)
        told = build_event(subject, wellknown.UPSTREAM_API_SERVER, now)
        around = await own.super_client.create(EVENTS, told)
        await reads("False", "KubeletUntrusted")
    since = own.mark("tenant")
    async with own.syncer():
        await own.idle()
        await reads("False", "KubeletUntrusted")
        assert [write for write in own.writes("tenant", since) if write.name == node] == []
        # By a clock that was set back.
        told = build_event(subject, wellknown.UPSTREAM_KUBELET, now - timedelta(seconds=10))
        straight = await own.super_client.create(EVENTS, told)
        await reads("True", "Kubelet")
        await own.super_client.delete(EVENTS, straight["metadata"]["name"], namespace=HOME)
        await reads("False", "KubeletUntrusted")
        await own.super_client.delete(EVENTS, around["metadata"]["name"], namespace=HOME)
        await reads("True", "Kubelet")


async def test_events_about_a_pod_are_reported_once_without_super_names(synced: SyncerWorld):
    space, _ = await running_pod(synced)
    twin = await synced.twin(PODS, space, "web")
    own = await synced.tenant_client.get(PODS, "web", namespace=space)
    super_space = synced.super_namespace(space)
    event = {
        "metadata": {"name": "web.1a2b", "namespace": super_space},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": super_space,
            "name": "web",
            "uid": twin["metadata"]["uid"],
        },
        "reason": "BackOff",
        "message": f"restarting pod web_{super_space}({twin['metadata']['uid']})",
        "type": "Warning",
        "count": 1,
        "source": {"component": "kubelet"},
    }
    await synced.idle()
    since = synced.mark("tenant")
    await synced.super_client.create(EVENTS, event)
    told = await eventually(lambda: synced.tenant_client.get(EVENTS, "web.1a2b", namespace=space))
    assert told["involvedObject"]["uid"] == own["metadata"]["uid"]
    assert told["message"] == f"restarting pod web_{space}({own['metadata']['uid']})"
    # The same state again is no news.
    await synced.super_client.patch(
        EVENTS, "web.1a2b", {"metadata": {"labels": {"a": "b"}}}, namespace=super_space
    )
    await asyncio.sleep(0.3)
    await synced.idle()
    assert len([w for w in synced.writes("tenant", since) if w.namespace == space]) == 1


def claims(secret: dict) -> dict:
    """Return what a token Secret's token says."""
    token = base64.b64decode(secret["data"]["token"]).decode()
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


async def test_a_token_is_the_tenants_and_renewed_at_half(synced: SyncerWorld):
    space = await synced.namespace()
    source = {"audience": "vault", "expirationSeconds": 900, "path": "t"}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": source}]}}
    await eventually(
        lambda: synced.tenant_client.create(PODS, pod("web", volumes=[volume]), namespace=space)
    )
    await eventually(lambda: synced.twin(PODS, space, "web"))
    found = await synced.super_client.list(SECRETS, namespace=synced.super_namespace(space))
    by_audience = {
        item["metadata"]["annotations"][wellknown.TOKEN_AUDIENCE]: item for item in found["items"]
    }
    shared, bound = by_audience[""], by_audience["vault"]
    assert claims(bound)["aud"] == ["vault"]
    assert claims(bound)["kubernetes.io"]["pod"]["name"] == "web"
    assert "pod" not in claims(shared)["kubernetes.io"]
    assert claims(shared)["exp"] - claims(shared)["iat"] == 7200

    token = base64.b64decode(shared["data"]["token"]).decode()
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
    }
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with Client(synced.tenant_plane.endpoint_with_token(token=token)) as client:
        answer = json.loads(await client.raw("POST", path, body=review))
    user = answer["status"]["userInfo"]["username"]
    assert user == f"system:serviceaccount:{space}:default"
    async with Client(synced.super_plane.endpoint_with_token(token=token)) as client:
        try:
            await client.raw("POST", path, body=review)
        except Unauthorized:
            refused = True
        else:
            refused = False
    assert refused

    # Half of its life has passed, as far as the record says.
    late = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    await synced.super_client.patch(
        SECRETS,
        shared["metadata"]["name"],
        {"metadata": {"annotations": {wellknown.TOKEN_RENEW: late}}},
        namespace=synced.super_namespace(space),
    )
    renewed = await eventually(
        lambda: synced.twin(SECRETS, space, shared["metadata"]["name"]),
        until=lambda body: body["data"] != shared["data"],
    )
    assert renewed["metadata"]["uid"] == shared["metadata"]["uid"]
    assert names.TOKEN_SECRET_PREFIX in renewed["metadata"]["name"]

    # An emptied super object is restored at once, whatever its lifetime.
    await synced.super_client.patch(
        SECRETS,
        renewed["metadata"]["name"],
        {"data": None},
        namespace=synced.super_namespace(space),
    )
    await eventually(
        lambda: synced.twin(SECRETS, space, renewed["metadata"]["name"]),
        until=lambda body: "token" in body.get("data", {}),
    )


async def test_readiness_gates_go_down_and_stay_the_tenants(synced: SyncerWorld):
    space, node = await synced.namespace(), await synced.super_node()
    gate = "example.com/ready"
    gated = pod("web", readinessGates=[{"conditionType": gate}])
    await synced.tenant_client.create(PODS, gated, namespace=space)
    await synced.start_pod(space, "web", node)
    own = {"type": gate, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await synced.tenant_client.patch(
        PODS,
        "web",
        {"status": {"conditions": [own]}},
        kind="strategic",
        namespace=space,
        subresource="status",
    )
    await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: any(c["type"] == gate for c in body["status"]["conditions"]),
    )
    await synced.report(space, "web", **{**running_status("web"), "message": "news"})
    shown = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda body: body["status"].get("message") == "news",
    )
    kinds = {item["type"]: item["status"] for item in shown["status"]["conditions"]}
    assert kinds[gate] == "True"
    assert kinds["Ready"] == "True"


async def test_forged_conditions_of_gates_cost_a_write_or_two(synced: SyncerWorld):
    """The same gate twice, in another zone's time, and what the kubelet says."""
    space, node = await synced.namespace(), await synced.super_node()
    gate = "example.com/ready"
    gated = pod("web", readinessGates=[{"conditionType": gate}])
    await synced.tenant_client.create(PODS, gated, namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.idle()
    since = {side: synced.mark(side) for side in ("super", "tenant")}
    live = await synced.tenant_client.get(PODS, "web", namespace=space)
    zoned = "2026-01-01T02:00:00+02:00"
    forged = [
        {"type": gate, "status": "True", "lastTransitionTime": zoned},
        {"type": gate, "status": "False", "lastTransitionTime": zoned},
        {"type": "Ready", "status": "False", "lastTransitionTime": zoned},
    ]
    others = [item for item in live["status"]["conditions"] if item["type"] != "Ready"]
    body = {"status": {"conditions": [*forged, *others]}}
    await synced.tenant_client.patch(PODS, "web", body, namespace=space, subresource="status")
    twin = await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda found: any(c["type"] == gate for c in found["status"]["conditions"]),
    )
    await asyncio.sleep(1)
    await synced.idle()
    said = {item["type"]: item["status"] for item in twin["status"]["conditions"]}
    assert (said[gate], said["Ready"]) == ("True", "True")
    own = await synced.tenant_client.get(PODS, "web", namespace=space)
    ready = [c["status"] for c in own["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["True"]
    super_writes = [w.resource for w in synced.writes("super", since["super"]) if w.name == "web"]
    tenant_writes = [
        w.resource for w in synced.writes("tenant", since["tenant"]) if w.name == "web"
    ]
    assert super_writes == ["pods/status"]
    assert 1 <= len(tenant_writes) <= 2


async def test_a_scheduling_gate_holds_a_pod(synced: SyncerWorld):
    space = await synced.namespace()
    gated = pod("web", schedulingGates=[{"name": "example.com/wait"}])
    await synced.tenant_client.create(PODS, gated, namespace=space)
    await asyncio.sleep(0.3)
    await synced.idle()
    assert not await synced.has_twin(PODS, space, "web")
    held = await synced.tenant_client.get(PODS, "web", namespace=space)
    conditions = {item["type"]: item["reason"] for item in held["status"]["conditions"]}
    assert conditions == {"PodScheduled": "SchedulingGated"}
    await synced.tenant_client.patch(
        PODS, "web", {"spec": {"schedulingGates": None}}, namespace=space
    )
    await eventually(lambda: synced.twin(PODS, space, "web"))
