"""Live snapshot of all objects in a root namespace.

Owns the reads at the start of a reconcile. Must not know the desired objects. Hazard: a failed read
is not an empty answer. It is raised, and no decision rests on it.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import Resource

Named = Mapping[str, Object]

KINDS: Mapping[str, Resource] = {
    each.kind: each
    for each in (
        resources.SECRETS,
        resources.CONFIG_MAPS,
        resources.SERVICES,
        resources.STATEFUL_SETS,
        resources.DEPLOYMENTS,
        resources.PODS,
        resources.PERSISTENT_VOLUME_CLAIMS,
    )
}
"""Resources that are read, by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Objects of a root namespace at one moment."""

    namespace: Object | None
    objects: Mapping[str, Named] = field(default_factory=dict)
    """By kind, then by name."""

    def named(self, kind: str) -> Named:
        """Return the objects of a kind, by name."""
        return self.objects.get(kind, {})

    def get(self, kind: str, name: str) -> Object | None:
        """Return one object, or None."""
        return self.named(kind).get(name)

    def pods_of(self, component: str) -> Iterator[Object]:
        """Yield the pods of a component."""
        for pod in self.named("Pod").values():
            labels = pod["metadata"].get("labels") or {}
            if labels.get(wellknown.COMPONENT) == component:
                yield pod


async def take(super_client: Client, tenant: Tenant) -> Snapshot:
    """Read a tenant's root namespace. Raises KubeError if a read fails."""
    try:
        namespace = await super_client.get(resources.NAMESPACES, tenant.root)
    except errors.NotFound:
        return Snapshot(namespace=None)
    lists = await asyncio.gather(
        *(super_client.list(resource, namespace=tenant.root) for resource in KINDS.values())
    )
    found = {
        kind: {each["metadata"]["name"]: _typed(each, kind) for each in page.get("items") or ()}
        for kind, page in zip(KINDS, lists, strict=True)
    }
    return Snapshot(namespace=namespace, objects=found)


def _typed(item: Object, kind: str) -> Object:
    """Return an item with its apiVersion and kind, which lists leave out."""
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, **item}
