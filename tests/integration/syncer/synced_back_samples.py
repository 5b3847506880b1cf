"""One object of each kind that a tenant is shown, and what is done to it in its life."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kubeio import Object
from syncer.model.keys import ADDRESS, NODE, VOLUME
from tenancy import wellknown
from tenancy.resources import (
    CSI_DRIVERS,
    INGRESS_CLASSES,
    IP_ADDRESSES,
    NODES,
    PERSISTENT_VOLUMES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICES,
    STORAGE_CLASSES,
    VOLUME_SNAPSHOT_CLASSES,
    Resource,
)
from tests.integration.syncer.control_planes import SLICE
from tests.integration.syncer.storage import bound_claim
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name

CreateSample = Callable[[SyncerWorld, "MirroredSample", str], Awaitable[str]]
DeleteSample = Callable[[SyncerWorld, "MirroredSample", str], Awaitable[None]]


async def make_it(world: SyncerWorld, sample: MirroredSample, name: str) -> str:
    """Create a super object of a sample's body, under a new name if none is given."""
    name = name or fresh_name("c")
    metadata = {"name": name, "labels": {"tier": "gold"}}
    body = {**sample.head, **sample.body, "metadata": metadata}
    await world.super_client.create(sample.resource, body, namespace=sample.super_space)
    return name


async def remove_it(world: SyncerWorld, sample: MirroredSample, name: str) -> None:
    """Delete it in the super cluster."""
    await world.super_client.delete(sample.resource, name, namespace=sample.super_space)


async def _make_node(world: SyncerWorld, _: MirroredSample, name: str) -> str:
    return await world.super_node(name)


async def _make_volume(world: SyncerWorld, _: MirroredSample, __: str) -> str:
    return (await bound_claim(world))[1]


async def _remove_volume(world: SyncerWorld, _: MirroredSample, name: str) -> None:
    """Delete a volume whatever holds it."""
    await world.super_client.delete(PERSISTENT_VOLUMES, name)
    await world.super_client.patch(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})


async def _make_address(world: SyncerWorld, _: MirroredSample, name: str) -> str:
    """Have another owner take an address of the tenant's slice."""
    network = ipaddress.ip_network(SLICE)
    address = name or str(network[256 + secrets.randbelow(256)])
    spec = {"clusterIP": address, "ports": [{"port": 1}]}
    body = {"metadata": {"name": _holder(address)}, "spec": spec}
    await eventually(lambda: world.super_client.create(SERVICES, body, namespace="default"))
    return address


async def _remove_address(world: SyncerWorld, _: MirroredSample, name: str) -> None:
    await world.super_client.delete(SERVICES, _holder(name), namespace="default")


def _holder(address: str) -> str:
    return f"s-{address.replace('.', '-')}"


@dataclass(frozen=True, kw_only=True)
class TenantWriteCounts:
    """The syncer's writes in the tenant for each thing that happens."""

    create: tuple[str, ...] = ("create",)
    change: tuple[str, ...] = ("update",)
    removal: tuple[str, ...] = ("update",)
    edit: tuple[str, ...] = ("update",)
    """For a tenant's edit that is undone."""
    back: tuple[str, ...] = ("create",)
    """For one that the tenant deleted."""
    gone: tuple[str, ...] = ("delete",)
    remade: tuple[str, ...] = ("delete", "create")
    """For a super object that was recreated while no syncer ran."""


@dataclass(frozen=True, kw_only=True)
class MirroredSample:
    """How an object of one kind is made, changed and seen."""

    resource: Resource
    body: Object
    seen: Object
    """What the tenant sees of the body."""
    change: Object
    """Merge patch of the super object that the tenant must see. Empty if no field may change."""
    removal: Object
    """Merge patch of the super object that undoes `change`."""
    edit: Object
    """Merge patch by the tenant that is undone. Empty: the tenant's copy has nothing to edit."""
    remake: Object | None
    """Merge patch of the body into one that could not be reached by a change. None: once only."""
    costs: TenantWriteCounts
    make: CreateSample = make_it
    remove: DeleteSample = remove_it
    super_space: str = ""
    """Namespace in the super cluster, of a kind with namespaces."""
    space: str = ""
    """Namespace in the tenant, of a kind with namespaces."""

    @property
    def head(self) -> Object:
        """Return what a kind that comes with a CRD has to be told."""
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind}


def says(found: Object, patch: Object) -> bool:
    """Return whether an object is as a merge patch leaves it."""
    return all(
        says(found.get(key) or {}, value) if isinstance(value, dict) else found.get(key) == value
        for key, value in patch.items()
    )


def _annotated(key: str, value: str | None) -> Object:
    return {"metadata": {"annotations": {key: value}}}


_INGRESS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_SNAPSHOT_DEFAULT = "snapshot.storage.kubernetes.io/is-default-class"
_THE_SAME: Object = {}

SHOWN: Mapping[str, MirroredSample] = {
    "StorageClass": MirroredSample(
        resource=STORAGE_CLASSES,
        body={
            "provisioner": "csi.example",
            "parameters": {"pool": "hidden"},
            "mountOptions": ["hidden"],
        },
        seen={"provisioner": "csi.example", "parameters": None, "mountOptions": None},
        change={"allowVolumeExpansion": True},
        removal={"allowVolumeExpansion": None},
        edit={"mountOptions": ["suid"]},
        remake={"provisioner": "other.example"},
        costs=TenantWriteCounts(),
    ),
    "PriorityClass": MirroredSample(
        resource=PRIORITY_CLASSES,
        body={"value": 7, "description": "hidden", "preemptionPolicy": "Never"},
        seen={"value": 7, "preemptionPolicy": "Never", "description": None},
        change={},
        removal={},
        edit={"description": "mine"},
        remake={"value": 8},
        costs=TenantWriteCounts(),
    ),
    "RuntimeClass": MirroredSample(
        resource=RUNTIME_CLASSES,
        body={"handler": "kata", "overhead": {"podFixed": {"cpu": "1"}}},
        seen={"handler": "kata", "overhead": None, "scheduling": None},
        change={},
        removal={},
        edit={"overhead": {"podFixed": {"cpu": "9"}}},
        remake={"handler": "other"},
        costs=TenantWriteCounts(),
    ),
    "IngressClass": MirroredSample(
        resource=INGRESS_CLASSES,
        body={
            "spec": {
                "controller": "example.com/x",
                "parameters": {"kind": "P", "name": "hidden", "apiGroup": "example.com"},
            }
        },
        seen={"spec": {"controller": "example.com/x"}},
        change=_annotated(_INGRESS_DEFAULT, "x"),
        removal=_annotated(_INGRESS_DEFAULT, None),
        edit={"spec": {"parameters": {"kind": "P", "name": "mine"}}},
        remake={"spec": {"controller": "example.com/y"}},
        costs=TenantWriteCounts(),
    ),
    "CSIDriver": MirroredSample(
        resource=CSI_DRIVERS,
        body={"spec": {"tokenRequests": [{"audience": "hidden"}]}},
        seen={},
        change={"spec": {"podInfoOnMount": True}},
        removal={"spec": {"podInfoOnMount": False}},
        edit={"spec": {"tokenRequests": [{"audience": "mine"}]}},
        remake={"spec": {"volumeLifecycleModes": ["Ephemeral"]}},
        costs=TenantWriteCounts(),
    ),
    "VolumeSnapshotClass": MirroredSample(
        resource=VOLUME_SNAPSHOT_CLASSES,
        body={
            "driver": "csi.example",
            "deletionPolicy": "Delete",
            "parameters": {"secret-name": "hidden"},
        },
        seen={"driver": "csi.example", "deletionPolicy": "Delete", "parameters": None},
        change={"deletionPolicy": "Retain", **_annotated(_SNAPSHOT_DEFAULT, "x")},
        removal={"deletionPolicy": "Delete", **_annotated(_SNAPSHOT_DEFAULT, None)},
        edit={"parameters": {"mine": "1"}},
        remake={"driver": "other.example"},
        costs=TenantWriteCounts(),
    ),
    NODE: MirroredSample(
        resource=NODES,
        body={},
        seen={"metadata": {"labels": {"disk": "fast"}}},
        change={"metadata": {"labels": {"disk": "slow"}}},
        removal={"metadata": {"labels": {"disk": "fast", "kubernetes.io/os": None}}},
        edit={"metadata": {"labels": {"disk": "mine"}}},
        remake=_THE_SAME,
        costs=TenantWriteCounts(
            create=("patch", "patch status"),
            change=("patch",),
            removal=("patch status", "patch"),
            edit=("patch",),
            back=("patch", "patch status"),
            remade=("patch status", "patch"),  # its label is back, and it has another UID
        ),
        make=_make_node,
    ),
    VOLUME: MirroredSample(
        resource=PERSISTENT_VOLUMES,
        body={},
        seen={"spec": {"capacity": {"storage": "1Gi"}}},
        change={"spec": {"capacity": {"storage": "2Gi"}}},
        removal={"spec": {"capacity": {"storage": "1Gi"}}},
        edit={"spec": {"mountOptions": ["suid"]}},
        remake=None,  # its claim is lost with it
        costs=TenantWriteCounts(
            create=("create", "patch status"),
            back=("create", "patch status"),
            gone=("patch status", "delete"),
        ),
        make=_make_volume,
        remove=_remove_volume,
    ),
    ADDRESS: MirroredSample(
        resource=IP_ADDRESSES,
        body={},
        seen={"metadata": {"labels": {wellknown.RESERVED_ADDRESS: "true"}}},
        change={},
        removal={},
        edit={},
        remake=_THE_SAME,
        costs=TenantWriteCounts(remade=()),  # it is still another owner's
        make=_make_address,
        remove=_remove_address,
    ),
}
"""By kind: `test_kinds_synced_back` fails for a kind that the engine shows and that is not here."""
