"""Objects that an audit creates in three clusters, and their removal.

Owns the record of all created objects. Hazard: an object must be recorded before the request that
creates it. Otherwise an interruption leaves it behind.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubectl_vc.audit import prober
from kubectl_vc.audit.webhooks import WEBHOOK_CONFIGURATIONS
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, NODES, PERSISTENT_VOLUMES, PODS, Resource

_POLL_SECONDS = 1.0
_ACCOUNT_WAIT_SECONDS = 30
_REMOVAL_SECONDS = 120
_ABANDONED_AFTER = timedelta(hours=1)
"""Age from which objects of another audit are leftovers. A running audit ends long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSide:
    """One tenant of the audit: its identity, its API, and the audit's namespace in it."""

    tenant: Tenant
    client: Client
    namespace: str

    @property
    def super_namespace(self) -> str:
        """The twin of the audit's namespace."""
        return self.build_super_namespace(self.namespace)

    def build_super_namespace(self, namespace: str) -> str:
        """Return the name of the twin of one of the tenant's namespaces."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, namespace)


@dataclass(frozen=True, slots=True)
class CreatedObject:
    """The place of an object that may exist because of this audit."""

    client: Client
    resource: Resource
    name: str
    namespace: str = ""


class AuditFixture:
    """Creates objects, and removes them all."""

    def __init__(self, super_client: Client) -> None:
        self.super_client = super_client
        self._created: list[CreatedObject] = []

    async def create(
        self, client: Client, resource: Resource, body: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        """Create an object. Raises ApiError if the API server refuses it.

        A new namespace has no default account for a moment, and its pods are refused until then.
        """
        if not namespace:  # objects in a namespace are deleted with it
            self._created.append(CreatedObject(client, resource, body["metadata"]["name"]))
        deadline = asyncio.get_running_loop().time() + _ACCOUNT_WAIT_SECONDS
        while True:
            try:
                return await client.create(resource, body, namespace=namespace)
            except errors.Forbidden as problem:
                said = problem.server_message
                is_early = "service account" in said or "serviceaccount" in said
                if not is_early or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(_POLL_SECONDS)

    async def create_namespace(
        self, client: Client, name: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace with the marks of audits."""
        metadata = {"name": name, "labels": {**prober.MARKS, **(labels or {})}}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await self.create(client, NAMESPACES, body)

    def expect_removal(self, super_namespace: str) -> None:
        """Record that the twin of a tenant's namespace must be deleted at the end as well."""
        self._created.append(CreatedObject(self.super_client, NAMESPACES, super_namespace))

    def expect_volume_removal(self, super_volume: str) -> None:
        """Record that a super volume must be deleted at the end. It is a hole that was found."""
        self._created.append(CreatedObject(self.super_client, PERSISTENT_VOLUMES, super_volume))

    async def remove(self) -> list[str]:
        """Delete all created objects. Returns those that are left after _REMOVAL_SECONDS."""
        super_twins = {wellknown.CONTROLLED: "true"}
        for each in reversed(self._created):
            with contextlib.suppress(errors.KubeError):
                if each.client is self.super_client and each.resource is NAMESPACES:
                    found = await each.client.get(NAMESPACES, each.name)
                    labels = found["metadata"].get("labels") or {}
                    if super_twins.items() <= labels.items():
                        continue  # the syncer deletes it after the tenant's namespace
                await each.client.delete(each.resource, each.name, propagation="Background")
        left = list(self._created)
        deadline = asyncio.get_running_loop().time() + _REMOVAL_SECONDS
        while left and asyncio.get_running_loop().time() < deadline:
            left = [each for each in left if await _exists(each)]
            if left:
                await asyncio.sleep(_POLL_SECONDS)
        return [f"{each.resource.kind} {each.name}" for each in left]

    async def remove_abandoned(self, clients: Sequence[Client]) -> None:
        """Delete what an audit left that was killed more than an hour ago."""
        selector = f"{prober.MANAGED_BY}={prober.MANAGER}"
        for client in clients:
            for resource in (NAMESPACES, NODES, PERSISTENT_VOLUMES, WEBHOOK_CONFIGURATIONS):
                found = await client.list(resource, label_selector=selector)
                for item in found.get("items") or []:
                    created = datetime.fromisoformat(item["metadata"]["creationTimestamp"])
                    labels = item["metadata"].get("labels") or {}
                    if wellknown.CONTROLLED in labels:
                        continue
                    if datetime.now(UTC) - created > _ABANDONED_AFTER:
                        with contextlib.suppress(errors.NotFound):
                            await client.delete(resource, item["metadata"]["name"])


async def wait_for_ready(client: Client, name: str, namespace: str) -> None:
    """Return once a pod is ready."""
    while True:
        pod = await client.get(PODS, name, namespace=namespace)
        if conditions.is_true((pod.get("status") or {}).get("conditions"), "Ready"):
            return
        await asyncio.sleep(_POLL_SECONDS)


async def watch_to_end(client: Client, name: str, namespace: str) -> AsyncIterator[Object]:
    """Yield the states of a prober pod. The last one has the termination message."""
    while True:
        pod = await client.get(PODS, name, namespace=namespace)
        yield pod
        if prober.get_termination_message(pod) is not None:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def list_items(client: Client, resource: Resource, namespace: str = "") -> list[Object]:
    """Return all objects of a kind."""
    found = await client.list(resource, namespace=namespace)
    return list(found.get("items") or [])


async def find_twin(
    super_client: Client,
    side: TenantSide,
    resource: Resource,
    tenant_object: Object,
    *,
    elsewhere: Sequence[str] = (),
) -> Object | None:
    """Return the super object of a tenant's object in the audit's namespace, or None.

    `elsewhere` are super namespaces in which it must not be. Hazard: the recorded tenant must not
    decide. A forged label could have replaced it, and the hole would count as a refusal.
    """
    uid = tenant_object["metadata"]["uid"]
    for namespace in (side.super_namespace, *elsewhere):
        for item in await list_items(super_client, resource, namespace):
            owner = ownership.read_owner(item["metadata"])
            if owner is not None and owner.uid == uid:
                return item
    return None


async def find_super_volume(
    super_client: Client, tenant_volume: Object, super_claim: tuple[str, str]
) -> Object | None:
    """Return the super volume of a tenant's volume, or of the claim's namespace and name."""
    for item in await list_items(super_client, PERSISTENT_VOLUMES):
        owner = ownership.read_owner(item["metadata"])
        reference = item["spec"].get("claimRef") or {}
        is_twin = owner is not None and owner.uid == tenant_volume["metadata"]["uid"]
        if is_twin or (reference.get("namespace"), reference.get("name")) == super_claim:
            return item
    return None


async def wait_for_twin(
    super_client: Client, side: TenantSide, resource: Resource, tenant_object: Object
) -> Object:
    """Return the super object of a tenant's object once it exists."""
    while True:
        found = await find_twin(super_client, side, resource, tenant_object)
        if found is not None:
            return found
        await asyncio.sleep(_POLL_SECONDS)


async def _exists(each: CreatedObject) -> bool:
    try:
        await each.client.get(each.resource, each.name, metadata_only=True)
    except errors.NotFound:
        return False
    except errors.KubeError:
        return True
    return True
