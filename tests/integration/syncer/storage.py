"""Claims and their volumes: made on both sides, waited for, and who wrote about them."""

from __future__ import annotations

import contextlib
from typing import Any

from kubeio import Object
from kubeio.errors import NotFound
from tenancy import wellknown
from tenancy.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from tests.integration.syncer.world import SyncerWorld
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually
from tests.support.names import fresh_name

BINDER_SECONDS = 40
"""The super cluster's binder looks at what it could not bind every 15 seconds."""
LEAKS = ("secret-of-the-super", "super-zone", "/srv/pool", "handle-of-the-super")
ZONED = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["super-zone"]}]}


def claim(name: str, storage_class: str | None = None, **spec: Any) -> Object:
    """Return a tenant's claim."""
    named = {} if storage_class is None else {"storageClassName": storage_class}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **named,
            **spec,
        },
    }


async def offer_class(world: SyncerWorld) -> str:
    """Create a class in the super cluster."""
    name = fresh_name("class")
    body = {
        "metadata": {"name": name},
        "provisioner": "csi.example",
        "parameters": {"pool": "/srv/pool"},
        "allowVolumeExpansion": True,
    }
    await world.super_client.create(STORAGE_CLASSES, body)
    if world.running:
        await eventually(lambda: world.tenant_client.get(STORAGE_CLASSES, name))
    return name


async def provision(world: SyncerWorld, space: str, name: str, storage_class: str) -> str:
    """Make the volume of a super claim, as a provisioner does. The binder binds the two."""
    twin = await eventually(lambda: world.twin(PERSISTENT_VOLUME_CLAIMS, space, name))
    volume = f"pvc-{twin['metadata']['uid']}"
    body = {
        "metadata": {"name": volume, "labels": {"topology.kubernetes.io/zone": "super-zone"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": twin["metadata"]["namespace"],
                "name": name,
                "uid": twin["metadata"]["uid"],
            },
            "csi": {
                "driver": "csi.example",
                "volumeHandle": "handle-of-the-super",
                "volumeAttributes": {"path": "/srv/pool"},
                "nodeStageSecretRef": {"name": "secret-of-the-super", "namespace": "default"},
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [ZONED]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
        },
    }
    await world.super_client.create(PERSISTENT_VOLUMES, body)
    return volume


async def is_bound(world: SyncerWorld, space: str, name: str) -> Object:
    """Wait until the tenant sees its claim bound."""
    return await eventually(
        lambda: world.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace=space),
        until=lambda body: (
            body["status"].get("phase") == "Bound" and body["spec"].get("volumeName")
        ),
        within=BINDER_SECONDS,
    )


async def phase_is(world: SyncerWorld, volume: str, phase: str) -> Object:
    """Wait until the tenant sees a volume in a phase."""
    return await eventually(
        lambda: world.tenant_client.get(PERSISTENT_VOLUMES, volume),
        until=lambda body: body["status"].get("phase") == phase,
        within=BINDER_SECONDS,
    )


async def force(world: SyncerWorld, volume: str) -> None:
    """Have the tenant delete a volume, whatever holds it."""
    found = await world.tenant_client.delete(PERSISTENT_VOLUMES, volume)
    if found["kind"] != "Status":
        free = {"metadata": {"uid": found["metadata"]["uid"], "finalizers": None}}
        await world.tenant_client.patch(PERSISTENT_VOLUMES, volume, free)


async def force_below(world: SyncerWorld, volume: str) -> None:
    """Delete a volume of the super cluster, whatever holds it."""
    found = await world.super_client.delete(PERSISTENT_VOLUMES, volume)
    if found["kind"] != "Status":
        free = {"metadata": {"uid": found["metadata"]["uid"], "finalizers": None}}
        with contextlib.suppress(NotFound):
            await world.super_client.patch(PERSISTENT_VOLUMES, volume, free)


async def bound_claim(world: SyncerWorld) -> tuple[str, str]:
    """Have a claim `x` that is bound. Returns its namespace and its volume."""
    space, named = await world.namespace(), await offer_class(world)
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, claim("x", named), namespace=space)
    volume = await provision(world, space, "x", named)
    await is_bound(world, space, "x")
    await phase_is(world, volume, "Bound")
    await world.idle()
    return space, volume


def claim_writes(world: SyncerWorld, side: str, since: AuditMark, space: str) -> list[str]:
    """Return the syncer's writes about the claim `x` of a tenant namespace."""
    place = world.super_namespace(space) if side == "super" else space
    return [
        f"{write.verb} {write.resource}"
        for write in world.writes(side, since)
        if write.resource.startswith("persistentvolumeclaims")
        and (write.namespace, write.name) == (place, "x")
    ]


def volume_writes(world: SyncerWorld, side: str, since: AuditMark, name: str) -> list[str]:
    """Return the syncer's writes about a volume."""
    return [
        f"{write.verb} {write.resource}"
        for write in world.writes(side, since)
        if write.resource.startswith("persistentvolume") and write.name == name
    ]


async def reasons(world: SyncerWorld, namespace: str, name: str) -> list[str]:
    """Return why the tenant was told of an object, oldest first."""
    found = await world.tenant_client.list(
        EVENTS, namespace=namespace, field_selector=f"involvedObject.name={name}"
    )
    ours = [item for item in found["items"] if item["source"].get("component") == wellknown.SYNCER]
    return [item["reason"] for item in ours]
