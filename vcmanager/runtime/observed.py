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

ObjectsByName = Mapping[str, Object]

OBSERVED_KINDS: Mapping[str, Resource] = {
    each.kind: each
    for each in (
        resources.SECRETS,
        resources.CONFIG_MAPS,
        resources.SERVICES,
        resources.STATEFUL_SETS,
        resources.DEPLOYMENTS,
        resources.PODS,
        resources.PERSISTENT_VOLUME_CLAIMS,
        resources.ROLE_BINDINGS,
        resources.NETWORK_POLICIES,
        resources.POD_DISRUPTION_BUDGETS,
    )
}
"""Resources that are read, by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedObjects:
    """Objects of a root namespace at one moment."""

    namespace: Object | None
    objects: Mapping[str, ObjectsByName] = field(default_factory=dict)
    """By kind, then by name."""

    def get_by_name(self, kind: str) -> ObjectsByName:
        """Return the objects of a kind, by name."""
        return self.objects.get(kind, {})

    def get(self, kind: str, name: str) -> Object | None:
        """Return one object, or None."""
        return self.get_by_name(kind).get(name)

    def iterate_pods(self, component: str) -> Iterator[Object]:
        """Yield the pods of a component."""
        for pod in self.get_by_name("Pod").values():
            labels = pod["metadata"].get("labels") or {}
            if labels.get(wellknown.COMPONENT) == component:
                yield pod


async def observe_objects(super_client: Client, tenant: Tenant) -> ObservedObjects:
    """Read a tenant's root namespace. Raises KubeError if a read fails."""
    try:
        namespace = await super_client.get(resources.NAMESPACES, tenant.root)
    except errors.NotFound:
        return ObservedObjects(namespace=None)
    lists = await asyncio.gather(
        *(
            super_client.list(resource, namespace=tenant.root)
            for resource in OBSERVED_KINDS.values()
        )
    )
    found = {
        kind: {each["metadata"]["name"]: _add_type(each, kind) for each in page.get("items") or ()}
        for kind, page in zip(OBSERVED_KINDS, lists, strict=True)
    }
    return ObservedObjects(namespace=namespace, objects=found)


def _add_type(item: Object, kind: str) -> Object:
    """Return an item with its apiVersion and kind, which lists leave out."""
    return {"apiVersion": OBSERVED_KINDS[kind].api_version, "kind": kind, **item}
