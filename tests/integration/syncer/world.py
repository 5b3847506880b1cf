"""A super cluster, a tenant, and the syncer itself in the test's loop.

No component runs pods. The tests write the fields that a scheduler and a kubelet write. Every write
of the syncer is counted from the audit logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import NotFound
from kubeio.http.rest import ClientOptions
from syncer.app import Syncer, SyncerOptions
from syncer.model import keys
from syncer.tenants.session import Session
from tenancy import conditions, names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import TenantPolicySpec
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.integration.syncer.objects import running_status
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name

SYNCER = "syncer"
HOME = "vc-manager"
LINGER = 0.2
"""Seconds that unneeded objects are kept in these tests."""
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True)
class SyncerWrite:
    """One write that the syncer sent."""

    verb: str
    resource: str
    namespace: str
    name: str
    code: int

    def __repr__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name} {self.code}"


@dataclass(kw_only=True)
class SyncerWorld:
    """One super cluster and one tenant, and all actors except the syncer."""

    super_plane: LocalControlPlane
    tenant_plane: LocalControlPlane
    tenant: Tenant
    super_client: Client
    """The super cluster's administrator."""
    tenant_client: Client
    """The tenant's administrator."""
    others: frozenset[str]
    """Namespaces and nodes, on either side, that are not this test's."""
    running: list[Syncer] = field(default_factory=list)

    # Names and copies.

    def super_namespace(self, namespace: str) -> str:
        """Return the super namespace of a tenant namespace."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, namespace)

    @property
    def session(self) -> Session:
        """The tenant's session in the running syncer."""
        return self.running[-1].tenants.sessions[keys.HOME][self.tenant.uid]

    def is_engaged(self) -> bool:
        """Return whether the running syncer has engaged the tenant."""
        session = self.running[-1].tenants.sessions[keys.HOME].get(self.tenant.uid)
        return session is not None and session.work.is_ready

    async def twin(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return the super object of a tenant object. Raises NotFound."""
        return await self.super_client.get(
            resource, name, namespace=self.super_namespace(namespace)
        )

    async def has_twin(self, resource: Resource, namespace: str, name: str) -> bool:
        """Return whether the super object exists."""
        try:
            await self.twin(resource, namespace, name)
        except NotFound:
            return False
        return True

    async def events(self, namespace: str) -> list[Object]:
        """Return the syncer's Events of a tenant namespace, without those of other components."""
        found = (await self.tenant_client.list(EVENTS, namespace=namespace))["items"]
        return [event for event in found if event.get("reportingComponent") == wellknown.SYNCER]

    async def namespace(self, name: str = "") -> str:
        """Create a tenant namespace, and wait until both sides can use it."""
        name = name or fresh_name("n")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.tenant_client.create(NAMESPACES, body)
        if self.running:
            await self.settled_namespace(name)
        return name

    async def settled_namespace(self, name: str) -> None:
        """Wait until a namespace and the objects of its controllers are on both sides."""
        store = self.running[-1].home.stores["ServiceAccount"]
        await eventually(lambda: store.list(self.super_namespace(name)))
        await eventually(
            lambda: self.tenant_client.get(CONFIG_MAPS, "kube-root-ca.crt", namespace=name)
        )
        await eventually(
            lambda: self.tenant_client.get(SERVICE_ACCOUNTS, "default", namespace=name)
        )
        await eventually(lambda: self.twin(SERVICE_ACCOUNTS, name, "default"))

    # The parts of a scheduler and a kubelet in the super cluster.

    async def super_node(self, name: str = "") -> str:
        """Register a node in the super cluster."""
        name = name or fresh_name("node")
        await self.super_client.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        "kubernetes.io/hostname": name,
                        "kubernetes.io/os": "linux",
                        "node-role.kubernetes.io/worker": "",
                        "disk": "fast",
                    },
                },
                "status": {
                    "addresses": [
                        {"type": "InternalIP", "address": "192.0.2.7"},
                        {"type": "Hostname", "address": name},
                    ],
                    "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "KubeletReady",
                            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ],
                    "nodeInfo": {
                        "architecture": "amd64",
                        "bootID": "b",
                        "containerRuntimeVersion": "containerd://2",
                        "kernelVersion": "6",
                        "kubeProxyVersion": "",
                        "kubeletVersion": "v1.36.4",
                        "machineID": "m",
                        "operatingSystem": "linux",
                        "osImage": "linux",
                        "systemUUID": "u",
                    },
                },
            },
        )
        return name

    async def schedule(self, namespace: str, name: str, node: str) -> None:
        """Bind a super pod."""
        super_space = self.super_namespace(namespace)
        await self.super_client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": super_space},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
            namespace=super_space,
            name=name,
            subresource="binding",
        )

    async def report(self, namespace: str, name: str, **status: Any) -> None:
        """Write a super pod's status as its kubelet does."""
        await self.super_client.patch(
            PODS,
            name,
            {"status": status},
            namespace=self.super_namespace(namespace),
            subresource="status",
        )

    async def start_pod(self, namespace: str, name: str, node: str) -> None:
        """Bind and start a super pod, and wait until the tenant's pod is Running."""
        await eventually(lambda: self.twin(PODS, namespace, name))
        await self.schedule(namespace, name, node)
        await self.report(namespace, name, **running_status(name))
        await eventually(
            lambda: self.tenant_client.get(PODS, name, namespace=namespace),
            until=lambda pod: pod["status"]["phase"] == "Running" and pod["spec"].get("nodeName"),
        )

    async def remove_pod(self, namespace: str, name: str) -> None:
        """Delete a terminating super pod, as its kubelet does."""
        super_space = self.super_namespace(namespace)
        await eventually(
            lambda: self.super_client.get(PODS, name, namespace=super_space),
            until=lambda pod: "deletionTimestamp" in pod["metadata"],
        )
        await self.super_client.delete(PODS, name, namespace=super_space, grace_seconds=0)

    # Writes of the syncer.

    def writes(self, side: str, since: AuditMark | None = None) -> list[SyncerWrite]:
        """Return the syncer's writes on a side since a mark, or all, except its Lease.

        What earlier tests left is looked at again whenever a syncer starts, and told of again.
        """
        return self.writes_in(self.super_plane if side == "super" else self.tenant_plane, since)

    def writes_in(
        self, plane: LocalControlPlane, since: AuditMark | None = None
    ) -> list[SyncerWrite]:
        """Return the same for any control plane, such as that of a target."""
        found = [_write(event) for event in plane.audit_events(since)]
        return [
            write
            for write in found
            if write is not None
            and write.resource != "leases"
            and (write.resource, write.name) != ("configmaps", names.QUOTA)  # a timer writes it
            and self.others.isdisjoint((write.namespace, write.name))
        ]

    def mark(self, side: str) -> AuditMark:
        """Return this moment in the audit log of a side."""
        plane = self.super_plane if side == "super" else self.tenant_plane
        return plane.audit_mark()

    async def idle(self) -> None:
        """Wait until the syncer is idle, with no key queued and none in process."""
        quiet = 0

        def is_quiet() -> bool:
            nonlocal quiet
            busy = any(
                len(syncer.queue) or syncer.queue.snapshot()["processing"]
                for syncer in self.running
            )
            quiet = 0 if busy else quiet + 1
            return quiet >= 7

        await eventually(is_quiet)

    async def condition(self, kind: str) -> Object | None:
        """Return a condition of the VirtualCluster."""
        body = await self.super_client.get(
            VIRTUAL_CLUSTERS, self.tenant.name, namespace=self.tenant.namespace
        )
        found = conditions.find_condition((body.get("status") or {}).get("conditions"), kind)
        return dict(found) if found is not None else None

    @contextlib.asynccontextmanager
    async def syncer(self, *, engaged: bool = True, **options: Any) -> AsyncIterator[Syncer]:
        """Run a syncer for the length of a block, with further options of its command line."""
        endpoint = self.super_plane.endpoint_for(SYNCER)
        stop = asyncio.Event()
        async with Client(endpoint, ClientOptions(user_agent="syncer")) as client:
            syncer = Syncer(
                client,
                SyncerOptions(namespace=HOME, port=0, identity="test", version="test", **options),
            )
            task = asyncio.create_task(syncer.run(stop))
            self.running.append(syncer)
            try:
                if engaged:
                    await eventually(lambda: self.is_engaged() or task.done(), within=30)
                    await asyncio.sleep(1.5 * LINGER)  # objects of earlier tests are deleted now
                    await self.idle()
                yield syncer
            finally:
                self.running.remove(syncer)
                stop.set()
                await asyncio.wait_for(task, 20)


async def names_of_others(
    super_client: Client, tenant_client: Client, tenant: Tenant
) -> frozenset[str]:
    """Return the namespaces and nodes of earlier tests."""
    found = {
        item["metadata"]["name"]
        for client in (super_client, tenant_client)
        for resource in (NAMESPACES, NODES)
        for item in (await client.list(resource, metadata_only=True))["items"] or ()
    }
    mapped = {
        names.build_super_namespace(tenant.root, tenant.uid, name) for name in SYSTEM_NAMESPACES
    }
    return frozenset(found - mapped - {*SYSTEM_NAMESPACES, HOME, tenant.root})


def _write(event: Any) -> SyncerWrite | None:
    if event["user"]["username"] != SYNCER or event["verb"] not in _WRITES:
        return None
    at = event["objectRef"]
    resource = "/".join(filter(None, (at["resource"], at.get("subresource", ""))))
    name = at.get("name") or ((event.get("requestObject") or {}).get("metadata") or {}).get("name")
    return SyncerWrite(
        event["verb"],
        resource,
        at.get("namespace", ""),
        name or "",
        event["responseStatus"]["code"],
    )


@contextlib.asynccontextmanager
async def policed(world: SyncerWorld, policy: TenantPolicySpec) -> AsyncIterator[None]:
    """Bind the tenant to a TenantPolicy of the test's own for the length of a block."""
    tenant, name = world.tenant, fresh_name("policy")
    body = {
        "apiVersion": TENANT_POLICIES.api_version,
        "kind": "TenantPolicy",
        "metadata": {"name": name},
        "spec": msgspec.to_builtins(policy),
    }

    async def bind(ref: Object | None) -> None:
        await world.super_client.patch(
            VIRTUAL_CLUSTERS,
            tenant.name,
            {"spec": {"policyRef": ref}},
            namespace=tenant.namespace,
        )

    await world.super_client.create(TENANT_POLICIES, body, validation="Strict")
    await bind({"name": name})
    try:
        yield
    finally:
        await bind(None)
        await world.super_client.delete(TENANT_POLICIES, name)
