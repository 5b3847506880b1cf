"""The reconcile of a tenant's content, with its watches, on real API servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import RequeueAfter
from tenancy import conditions, wellknown
from tenancy.resources import EVENTS, NAMESPACES, TENANT_POLICIES, VIRTUAL_CLUSTERS
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.reconcilers.tenant_content import reconcile_content
from vcmanager.runtime import keys
from vcmanager.runtime.content_sources import ContentSources
from vcmanager.runtime.context import ReconcileContext, TenantClients
from vcmanager.runtime.keys import ReconcileKey

_RETRY_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class ContentStage:
    """One tenant whose content is reconciled while the block runs."""

    admin: Client
    """The super admin."""
    tenant: Client
    """The tenant's admin."""
    cluster: Object
    means: ReconcileContext

    async def fetch(self) -> Object:
        """Return the VirtualCluster as it is now."""
        name = self.cluster["metadata"]["name"]
        return await self.admin.get(VIRTUAL_CLUSTERS, name, namespace="default")

    async def condition_is(self, kind: str, status: str, text: str = "") -> Object:
        """Wait for a condition with a status and a text in its message."""

        async def look() -> Object:
            listed = ((await self.fetch()).get("status") or {}).get("conditions")
            return dict(conditions.find_condition(listed, kind) or {})

        return await eventually(
            look,
            until=lambda found: found.get("status") == status and text in found["message"],
        )

    async def set_spec(self, **spec: Any) -> None:
        """Change the VirtualCluster, and wake the reconcile as its watch would."""
        metadata = self.cluster["metadata"]
        await self.admin.patch(
            VIRTUAL_CLUSTERS, metadata["name"], {"spec": spec}, namespace="default"
        )
        self.wake()

    def wake(self) -> None:
        """Wake the reconcile, as the watch of the VirtualCluster or its policy would."""
        name = self.cluster["metadata"]["name"]
        self.means.enqueue(keys.build_content_key("default", name))

    async def told(self, namespace: str, name: str) -> list[str]:
        """Return the reasons of the Events about an object in the tenant."""
        found = await self.tenant.list(
            EVENTS, namespace=namespace, field_selector=f"involvedObject.name={name}"
        )
        return [
            item["reason"]
            for item in found["items"]
            if item["source"].get("component") == wellknown.MANAGER
        ]

    async def tenant_namespace(self, **labels: str) -> str:
        """Create a namespace of the tenant."""
        name = fresh_name("n")
        await self.tenant.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        return name

    async def source_namespace(self, label: str = "enabled", **labels: str) -> str:
        """Create a namespace of the super cluster that may be a source."""
        name = fresh_name("source")
        marks = {wellknown.SHARED_SOURCE: label, **labels}
        await self.admin.create(NAMESPACES, {"metadata": {"name": name, "labels": marks}})
        return name

    async def use_policy(self, *shared: Object) -> str:
        """Create a policy with shared objects, and bind the tenant to it."""
        name = fresh_name("policy")
        body = {
            "apiVersion": TENANT_POLICIES.api_version,
            "kind": "TenantPolicy",
            "metadata": {"name": name},
            "spec": {"sharedObjects": [*shared]},
        }
        await self.admin.create(TENANT_POLICIES, body, validation="Strict")
        await self.set_spec(policyRef={"name": name})
        return name


@contextlib.asynccontextmanager
async def reconciling(
    stage: ManagerStage, inside: LocalControlPlane, **spec: Any
) -> AsyncIterator[ContentStage]:
    """Declare a tenant, connect to it, and reconcile its content while the block runs."""
    cluster = await stage.declare(**spec)
    queue: asyncio.Queue[ReconcileKey] = asyncio.Queue()
    sources = ContentSources(queue.put_nowait)
    async with TenantClients() as clients, Client(inside.endpoint) as tenant:
        means = replace(
            stage.means,
            tenant_clients=clients,
            content_sources=sources,
            enqueue=queue.put_nowait,
        )
        await clients.get(
            cluster["metadata"]["uid"],
            inside.kubeconfig(),
            "tenant",
            on_changed=lambda: None,
            watched_resources=(),
        )
        found = ContentStage(admin=stage.admin, tenant=tenant, cluster=cluster, means=means)
        tasks = [
            asyncio.ensure_future(sources.run(stage.manager)),
            asyncio.ensure_future(_work(means, queue)),
        ]
        found.wake()
        try:
            yield found
        finally:
            for task in tasks:
                task.cancel()
            done, _ = await asyncio.wait(tasks)
            failed = [task.exception() for task in done if not task.cancelled()]
            assert not failed


async def _work(means: ReconcileContext, queue: asyncio.Queue[ReconcileKey]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        key = await queue.get()
        try:
            result = await reconcile_content(means, key)
        except errors.Conflict:
            result = RequeueAfter(_RETRY_SECONDS)
        if isinstance(result, RequeueAfter):
            loop.call_later(_RETRY_SECONDS, queue.put_nowait, key)
