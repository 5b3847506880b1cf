"""Pods with claims: they wait for their own, and never mount a foreign one."""

from __future__ import annotations

import asyncio

import pytest

from tenancy.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.storage import claim, reasons
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough


async def make_ephemeral(world: SyncerWorld, space: str, pod_name: str, name: str) -> None:
    """Make the claim of an ephemeral volume as the tenant's controller does."""
    owner = await world.tenant_client.get(PODS, pod_name, namespace=space)
    body = claim(name)
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod_name,
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace=space)


async def test_a_pod_uses_claims(synced: SyncerWorld):
    space = await synced.namespace()
    template = {"spec": claim("")["spec"]}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
    ]
    await synced.tenant_client.create(PODS, pod("web", volumes=volumes), namespace=space)
    await asyncio.sleep(0.3)
    await synced.idle()
    assert not await synced.has_twin(PODS, space, "web")
    await make_ephemeral(synced, space, "web", "web-scratch")
    twin = await eventually(lambda: synced.twin(PODS, space, "web"))
    found = {volume["name"]: volume for volume in twin["spec"]["volumes"]}
    assert found["data"]["persistentVolumeClaim"]["claimName"] == "x"
    assert found["scratch"]["persistentVolumeClaim"]["claimName"] == "web-scratch"
    assert "ephemeral" not in found["scratch"]


async def test_a_pod_cannot_mount_a_foreign_claim(synced: SyncerWorld):
    space = await synced.namespace()
    super_space = synced.super_namespace(space)
    for name in ("stranger", "web-scratch"):
        await synced.super_client.create(
            PERSISTENT_VOLUME_CLAIMS, claim(name), namespace=super_space
        )
    template = {"spec": claim("")["spec"]}
    for name, volume in (
        ("db", {"name": "v", "persistentVolumeClaim": {"claimName": "stranger"}}),
        ("web", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}),
    ):
        await synced.tenant_client.create(PODS, pod(name, volumes=[volume]), namespace=space)
        if "ephemeral" in volume:
            await make_ephemeral(synced, space, "web", "web-scratch")
        await eventually(
            lambda name=name: reasons(synced, space, name),
            until=lambda found: found == ["NameTaken"],
        )
        assert not await synced.has_twin(PODS, space, name)
