"""Syncers with one rule missing, as a table: what each of them writes of a tenant's objects.

A mutant syncs the audit's plain pod as the real syncer would, and the object of one row with the
trait that the missing rule forbids. Nothing else is synced.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from kubectl_vc.audit import objects
from kubectl_vc.audit.fixture import TenantSide
from kubectl_vc.audit.object_probes import OBJECT_PROBES
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import ownership, wellknown
from tenancy.resources import NAMESPACES, PODS, Resource

PAUSE_SECONDS = 0.3
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
Change = Callable[[Object, TenantSide], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One syncer that lacks a rule."""

    name: str
    probe: str
    """The row of the audit that must fail."""
    change: Change
    """Puts the forbidden trait into the twin that the real rules would leave out."""


def keep(_: Object, __: TenantSide) -> None:
    """Sync the object as it is, apart from the marks of the owner."""


def let_labels_win(twin: Object, decoy: TenantSide) -> None:
    """A label of the tenant replaces a mark of the syncer."""
    twin["metadata"]["labels"] |= {
        wellknown.VC_UID: decoy.tenant.uid,
        wellknown.CLUSTER: decoy.tenant.root,
    }


def let_annotations_win(twin: Object, decoy: TenantSide) -> None:
    """An annotation of the tenant replaces the record of the owner."""
    let_labels_win(twin, decoy)
    twin["metadata"]["annotations"] |= {
        wellknown.VC_UID: decoy.tenant.uid,
        wellknown.CLUSTER: decoy.tenant.root,
    }


def follow_label(twin: Object, decoy: TenantSide) -> None:
    """The forged label decides about the namespace."""
    twin["metadata"]["namespace"] = decoy.super_namespace


FORGED = "forged-owner-label"
MUTANTS: tuple[Mutant, ...] = (
    *(
        Mutant(f"without the rule about {probe.name}", probe.name, keep)
        for probe in OBJECT_PROBES
        if probe.name != FORGED
    ),
    Mutant("labels of tenants win", FORGED, let_labels_win),
    Mutant("annotations of tenants win", FORGED, let_annotations_win),
    Mutant("the copy follows a label", FORGED, follow_label),
)


class MutantSyncer:
    """Syncs some objects of one tenant, once each."""

    def __init__(self, super_client: Client, own: TenantSide, decoy: TenantSide) -> None:
        self._super_client, self._own, self._decoy = super_client, own, decoy
        self._synced: set[str] = set()

    @contextlib.asynccontextmanager
    async def running(self, mutant: Mutant | None) -> AsyncIterator[None]:
        """Run for the length of a block. Without a mutant, only the plain pod is synced."""
        wanted: dict[tuple[Resource, str], Change] = {(PODS, "plain"): keep}
        if mutant is not None:
            probe = next(each for each in OBJECT_PROBES if each.name == mutant.probe)
            name = probe.name
            if not probe.resource.namespaced:
                name = objects.name_cluster_object(self._own, probe)
            wanted[probe.resource, name] = mutant.change

        async def work() -> None:
            while True:
                for (resource, name), change in wanted.items():
                    await self.sync(resource, name, self._own.namespace, change)
                await asyncio.sleep(PAUSE_SECONDS)

        task = asyncio.create_task(work())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def sync(self, resource: Resource, name: str, namespace: str, change: Change) -> None:
        """Create the twin of an object once the object exists."""
        key = f"{resource.kind} {namespace}/{name}"
        if key in self._synced:
            return
        place = namespace if resource.namespaced else ""
        try:
            made = await self._own.client.get(resource, name, namespace=place)
        except errors.NotFound:
            return
        twin = copy.deepcopy(made)
        metadata, uid = twin["metadata"], made["metadata"]["uid"]
        for field in _SERVER_FIELDS:
            metadata.pop(field, None)
        twin.pop("status", None)
        twin.get("spec", {}).pop("finalizers", None)
        for field in ("clusterIP", "clusterIPs"):
            twin.get("spec", {}).pop(field, None)
        tenant = self._own.tenant
        below = self._own.build_super_namespace(namespace if resource.namespaced else name)
        if resource.namespaced:
            metadata["namespace"] = below
        else:
            metadata["name"] = below
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            **ownership.build_owner_labels(tenant, namespace),
        }
        metadata["annotations"] = ownership.build_owner_annotations(tenant, namespace, uid)
        change(twin, self._decoy)
        await self._super_client.create(resource, twin)
        self._synced.add(key)

    async def create_namespace(self, namespace: str) -> None:
        """Create the super namespace of a tenant's namespace."""
        metadata = {
            "name": self._own.build_super_namespace(namespace),
            "labels": ownership.build_owner_labels(self._own.tenant, namespace),
            "annotations": ownership.build_owner_annotations(self._own.tenant, namespace, "u"),
        }
        await self._super_client.create(NAMESPACES, {"metadata": metadata})
