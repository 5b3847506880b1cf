"""Pods that a webhook of the super cluster adds to: changes arrive, and writers do not fight."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubeio import Object
from kubeio.errors import KubeError
from syncer.rules.pods import lifecycle
from tenancy import wellknown
from tenancy.resources import EVENTS, PODS
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually
from tests.support.webhook import Patch, mutating

pytestmark = pytest.mark.thorough

PODS_CHANGED = 20
CHANGES = 50
"""Of each pod, one label each."""
EVICTED = 36
HELD_UP = (0.0, 0.05, 0.5)
"""Seconds that updates are on their way."""
TOLERATION = {"key": "pool.example", "operator": "Exists", "effect": "NoSchedule"}
SELECTED = ("pool.example~1kind", "shared")
ENV = {"name": "MESH", "value": "on"}
SIDECAR = {"name": "mesh", "image": "registry.example/mesh:1", "env": [ENV]}


@dataclass
class MutatingWebhook:
    """The webhook: adds what a pod lacks, at each create and at each update."""

    seen: Counter[str] = field(default_factory=Counter)
    delays: dict[str, float] = field(default_factory=dict)
    """Seconds that an update of a pod is held up, by its name."""

    async def mutate(self, operation: str, body: dict[str, Any]) -> Patch:
        """Return the patch for one pod."""
        self.seen[operation] += 1
        if operation == "UPDATE":
            await asyncio.sleep(self.delays.get(body["metadata"]["name"], 0))
        spec, patch = body["spec"], []
        if TOLERATION not in spec.get("tolerations", []):
            value: Any = TOLERATION if "tolerations" in spec else [TOLERATION]
            path = "/spec/tolerations/-" if "tolerations" in spec else "/spec/tolerations"
            patch.append({"op": "add", "path": path, "value": value})
        key, value = SELECTED
        if key.replace("~1", "/") not in spec.get("nodeSelector", {}):
            if "nodeSelector" not in spec:
                patch.append({"op": "add", "path": "/spec/nodeSelector", "value": {}})
            patch.append({"op": "add", "path": f"/spec/nodeSelector/{key}", "value": value})
        first = spec["containers"][0]
        if ENV not in first.get("env", []):
            if "env" not in first:
                patch.append({"op": "add", "path": "/spec/containers/0/env", "value": []})
            patch.append({"op": "add", "path": "/spec/containers/0/env/-", "value": ENV})
        if all(container["name"] != SIDECAR["name"] for container in spec["containers"]):
            patch.append({"op": "add", "path": "/spec/containers/-", "value": SIDECAR})
        return patch


def has_all(twin: Object) -> bool:
    """Return whether a super pod has the four additions."""
    spec = twin["spec"]
    return (
        any(item.get("key") == TOLERATION["key"] for item in spec["tolerations"])
        and spec["nodeSelector"]["pool.example/kind"] == "shared"
        and ENV in spec["containers"][0]["env"]
        and [item["name"] for item in spec["containers"]] == ["main", "mesh"]
    )


@contextlib.asynccontextmanager
async def meshed(world: SyncerWorld, *spaces: str) -> AsyncIterator[MutatingWebhook]:
    """Have the webhook change the pods of tenant namespaces. Returns once it does."""
    mesh, super_space = MutatingWebhook(), [world.super_namespace(space) for space in spaces]
    async with mutating(world.super_client, mesh.mutate, resource="pods", namespaces=super_space):
        probe = pod("probe", serviceAccountName="default")

        async def is_meshed() -> bool:
            made = await world.super_client.create(
                PODS, probe, namespace=super_space[0], dry_run=True
            )
            return len(made["spec"]["containers"]) > 1

        await eventually(is_meshed, within=30)
        mesh.seen.clear()
        yield mesh


async def start(
    world: SyncerWorld, space: str, name: str, node: str, *, owned: bool = False
) -> Object:
    """Run a pod whose super pod has a sidecar. Return the tenant's pod."""
    body = pod(name)
    if owned:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    await world.tenant_client.create(PODS, body, namespace=space)
    twin = await eventually(lambda: world.twin(PODS, space, name))
    assert has_all(twin)
    await world.schedule(space, name, node)
    status = running_status(name)
    side = {**status["containerStatuses"][0], "name": "mesh"}
    status["containerStatuses"].append(side)
    await world.report(space, name, **status)
    return await eventually(
        lambda: world.tenant_client.get(PODS, name, namespace=space),
        until=lambda found: found["status"]["phase"] == "Running" and found["spec"].get("nodeName"),
    )


async def test_a_thousand_label_changes_arrive_and_writers_do_not_fight(synced: SyncerWorld):
    """REL-37: four additions, and no write at rest."""
    world = synced
    space, node = await world.namespace(), await world.super_node()
    names = [f"web-{number}" for number in range(PODS_CHANGED)]
    super_space = world.super_namespace(space)
    async with meshed(world, space) as mesh:
        await asyncio.gather(*(start(world, space, name, node) for name in names))
        await world.idle()
        since = {side: world.mark(side) for side in ("super", "tenant")}
        updates = mesh.seen["UPDATE"]

        async def change(name: str) -> None:
            for number in range(CHANGES):
                patch = {"metadata": {"labels": {f"change-{number}": str(number)}}}
                await world.tenant_client.patch(PODS, name, patch, namespace=space)

        await asyncio.gather(*(change(name) for name in names))
        wanted = {f"change-{number}": str(number) for number in range(CHANGES)}
        for name in names:
            twin = await eventually(
                lambda name=name: world.twin(PODS, space, name),
                until=lambda body: wanted.items() <= body["metadata"]["labels"].items(),
                within=60,
            )
            assert has_all(twin)
        await world.idle()
        writes = [write for write in world.writes("super", since["super"]) if write.name in names]
        assert [write for write in writes if write.code >= 400] == []
        assert {write.verb for write in writes} == {"patch"}
        assert len(names) <= len(writes) <= PODS_CHANGED * CHANGES
        assert mesh.seen["UPDATE"] - updates >= len(writes)
        # At rest no one writes, whatever the webhook has added.
        rest = world.mark("super")
        for key in world.session.all_keys.list_keys():
            world.session.queue.add(key)
        await world.idle()
        assert [
            write for write in world.writes("super", rest) if write.namespace == super_space
        ] == []
    tenant_writes = [
        write for write in world.writes("tenant", since["tenant"]) if write.name in names
    ]
    assert tenant_writes == []
    assert dict(world.session.hot_loop_guard.list_parked()) == {}
    events = (await world.tenant_client.list(EVENTS, namespace=space))["items"]
    assert [event["message"] for event in events if event["type"] == "Warning"] == []
    shown = await world.tenant_client.get(PODS, names[0], namespace=space)
    assert [item["name"] for item in shown["status"]["containerStatuses"]] == ["main"]


async def evict(world: SyncerWorld, space: str, name: str, *, at_once: bool) -> None:
    """Have the super cluster evict a pod. At once: its node does not wait for its containers."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": world.super_namespace(space)},
        "deleteOptions": {"gracePeriodSeconds": 0 if at_once else 30},
    }
    place = world.super_namespace(space)
    await world.super_client.create(PODS, body, namespace=place, name=name, subresource="eviction")


async def test_a_pod_evicted_while_an_update_is_in_flight_keeps_its_uid_for_ever(
    synced: SyncerWorld,
):
    """Evicted before, while and after the update is held up on its way through admission."""
    world = synced
    space, node = await world.namespace(), await world.super_node()
    super_space = world.super_namespace(space)
    uids: dict[str, str] = {}
    since = world.mark("super")
    async with meshed(world, space) as mesh:

        async def life(number: int) -> None:
            name, is_owned, at_once = f"web-{number}", bool(number & 1), bool(number & 2)
            own = await start(world, space, name, node, owned=is_owned)
            uids[name] = own["metadata"]["uid"]
            mesh.delays[name] = HELD_UP[number // 4 % len(HELD_UP)]
            changes = asyncio.create_task(change(name))
            await asyncio.sleep(number * 7 % 12 * 0.025)
            await evict(world, space, name, at_once=at_once)
            if not at_once:
                await asyncio.sleep(number * 5 % 8 * 0.025)
                await world.super_client.delete(PODS, name, namespace=super_space, grace_seconds=0)
            await changes
            await eventually(lambda: is_over(name), within=30)

        async def change(name: str) -> None:
            with contextlib.suppress(KubeError):  # it may be gone in the middle
                for turn in range(6):
                    patch = {"metadata": {"labels": {"turn": str(turn)}}}
                    await world.tenant_client.patch(PODS, name, patch, namespace=space)
                    await asyncio.sleep(0.05)

        async def is_over(name: str) -> bool:
            """Return whether the tenant's pod is gone or lost."""
            found = await world.tenant_client.list(
                PODS, namespace=space, field_selector=f"metadata.name={name}"
            )
            return all(
                item["status"].get("reason") == lifecycle.LOST_REASON for item in found["items"]
            )

        for begin in range(0, EVICTED, 12):
            await asyncio.gather(*(life(number) for number in range(begin, begin + 12)))
        await world.idle()
    made = Counter(
        created["metadata"]["annotations"][wellknown.UID]
        for created in creates(world, since, super_space)
    )
    assert made == Counter(uids.values())
    assert (await world.super_client.list(PODS, namespace=super_space))["items"] == []
    # The name is free for another pod of the tenant.
    await gone(lambda: world.tenant_client.get(PODS, "web-1", namespace=space))
    again = await world.tenant_client.create(PODS, pod("web-1"), namespace=space)
    twin = await eventually(lambda: world.twin(PODS, space, "web-1"))
    assert twin["metadata"]["annotations"][wellknown.UID] == again["metadata"]["uid"]


def creates(world: SyncerWorld, since: AuditMark, namespace: str) -> list[Object]:
    """Return the pods that the syncer made in a super namespace."""
    found: list[Object] = []
    for event in world.super_plane.audit_events(since):
        at: Any = event.get("objectRef") or {}
        is_create = event["verb"] == "create" and "subresource" not in at
        is_its = (at.get("resource"), at.get("namespace")) == ("pods", namespace)
        code: Any = event["responseStatus"]
        is_made = is_create and is_its and code["code"] < 400
        if is_made and event["user"]["username"] == SYNCER:  # type: ignore[index]
            found.append(event["requestObject"])  # type: ignore[arg-type]
    return found
