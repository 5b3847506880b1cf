"""A super cluster and tenants as the syncer meets them, and the syncer itself in the test's loop.

The syncer runs with exactly the rights of its own tables, so that a missing verb fails here. Nobody
runs pods: the tests write what a scheduler and a kubelet would write. Every write that the syncer
sends is counted from the audit logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeio import Object
from kubeio.client import Client
from kubeio.errors import NotFound
from syncer.access import SUPER_ACCESS, TENANT_ACCESS
from syncer.app import Options, Syncer
from syncer.session import Session
from tenancy import conditions, marks, names, ownership
from tenancy.access import Access
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.support.controlplane import ACCOUNTS, ControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.testbed import product

CRDS = product.REPOSITORY / "charts" / "virtual-cluster" / "files" / "crds"
SYNCER = "syncer"
SLICE = "10.96.8.0/22"
HOME = "vc-manager"
_NAMESPACES = "namespace-controller"
_ROOT_CA = "root-ca-certificate-publisher-controller"
LINGER = 0.2
"""Seconds that unneeded objects are kept in these tests."""
_WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True)
class Write:
    """One write that the syncer sent."""

    verb: str
    resource: str
    namespace: str
    name: str
    code: int

    def __repr__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name} {self.code}"


@dataclass(kw_only=True)
class World:
    """One super cluster and one tenant, and the hands of everybody but the syncer."""

    super_plane: ControlPlane
    tenant_plane: ControlPlane
    tenant: Tenant
    below: Client
    """The super cluster's administrator."""
    above: Client
    """The tenant's administrator."""
    running: list[Syncer] = field(default_factory=list)

    # Where things are.

    def super_namespace(self, namespace: str) -> str:
        """Return where a tenant namespace is mapped to."""
        return names.super_namespace(self.tenant.root, self.tenant.uid, namespace)

    @property
    def session(self) -> Session:
        """The tenant's session in the syncer that runs now."""
        return self.running[-1].tenants.sessions[self.tenant.uid]

    def is_engaged(self) -> bool:
        """Tell whether the syncer that runs now works for the tenant."""
        session = self.running[-1].tenants.sessions.get(self.tenant.uid)
        return session is not None and session.is_ready

    async def twin(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return the super object of a tenant object; raises NotFound."""
        return await self.below.get(resource, name, namespace=self.super_namespace(namespace))

    async def has_twin(self, resource: Resource, namespace: str, name: str) -> bool:
        """Tell whether there is a super object of that name."""
        try:
            await self.twin(resource, namespace, name)
        except NotFound:
            return False
        return True

    async def namespace(self, name: str = "") -> str:
        """Make a tenant namespace and wait until it can be used on both sides."""
        name = name or fresh_name("n")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.above.create(NAMESPACES, body)
        if self.running:
            await self.settled_namespace(name)
        return name

    async def settled_namespace(self, name: str) -> None:
        """Wait until a namespace is below, with its account."""
        store = self.session.super_store("ServiceAccount")
        await eventually(lambda: store.list(self.super_namespace(name)))

    # What a scheduler and a kubelet do below.

    async def super_node(self, name: str = "") -> str:
        """Register a node below."""
        name = name or fresh_name("node")
        await self.below.create(
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
        below = self.super_namespace(namespace)
        await self.below.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": below},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
            namespace=below,
            name=name,
            subresource="binding",
        )

    async def report(self, namespace: str, name: str, **status: Any) -> None:
        """Write a super pod's status as its kubelet does."""
        await self.below.patch(
            PODS,
            name,
            {"status": status},
            namespace=self.super_namespace(namespace),
            subresource="status",
        )

    async def start_pod(self, namespace: str, name: str, node: str) -> None:
        """Bind a super pod and let it run; wait until the tenant sees that."""
        await eventually(lambda: self.twin(PODS, namespace, name))
        await self.schedule(namespace, name, node)
        await self.report(namespace, name, **running_status(name))
        await eventually(
            lambda: self.above.get(PODS, name, namespace=namespace),
            until=lambda pod: pod["status"]["phase"] == "Running" and pod["spec"].get("nodeName"),
        )

    async def remove_pod(self, namespace: str, name: str) -> None:
        """Let a super pod that is being deleted go, as its kubelet does."""
        below = self.super_namespace(namespace)
        await eventually(
            lambda: self.below.get(PODS, name, namespace=below),
            until=lambda pod: "deletionTimestamp" in pod["metadata"],
        )
        await self.below.delete(PODS, name, namespace=below, grace_seconds=0)

    # What the syncer did.

    def writes(self, side: str, since: int = 0) -> list[Write]:
        """Return the syncer's writes on a side from a place in the audit log on, less its Lease."""
        plane = self.super_plane if side == "super" else self.tenant_plane
        found = [_write(event) for event in plane.audit_events()[since:]]
        return [write for write in found if write is not None and write.resource != "leases"]

    def mark(self, side: str) -> int:
        """Return the place in the audit log that is reached now."""
        plane = self.super_plane if side == "super" else self.tenant_plane
        return len(plane.audit_events())

    async def idle(self) -> None:
        """Wait until the syncer has nothing to do: no key waits for a turn, and none is in hand."""
        quiet = 0

        def is_quiet() -> bool:
            nonlocal quiet
            busy = any(
                len(syncer.queue) or syncer.queue.snapshot()["processing"]
                for syncer in self.running
            )
            quiet = 0 if busy else quiet + 1
            return quiet >= 5

        await eventually(is_quiet)

    async def condition(self, kind: str) -> Object | None:
        """Return a condition of the VirtualCluster."""
        body = await self.below.get(
            VIRTUAL_CLUSTERS, self.tenant.name, namespace=self.tenant.namespace
        )
        found = conditions.find((body.get("status") or {}).get("conditions"), kind)
        return dict(found) if found is not None else None

    @contextlib.asynccontextmanager
    async def syncer(self, *, engaged: bool = True) -> AsyncIterator[Syncer]:
        """Run a syncer for the length of a block."""
        endpoint = self.super_plane.endpoint_for(SYNCER)
        stop = asyncio.Event()
        async with Client(endpoint, user_agent="syncer") as client:
            syncer = Syncer(
                client,
                Options(namespace=HOME, port=0, identity="test", version="test"),
            )
            task = asyncio.create_task(syncer.run(stop))
            self.running.append(syncer)
            try:
                if engaged:
                    await eventually(lambda: self.is_engaged() or task.done(), within=30)
                    await asyncio.sleep(1.5 * LINGER)  # what earlier tests left goes now
                    await self.idle()
                yield syncer
            finally:
                self.running.remove(syncer)
                stop.set()
                await asyncio.wait_for(task, 20)


def _write(event: Any) -> Write | None:
    if event["user"]["username"] != SYNCER or event["verb"] not in _WRITES:
        return None
    at = event["objectRef"]
    resource = "/".join(filter(None, (at["resource"], at.get("subresource", ""))))
    name = at.get("name") or ((event.get("requestObject") or {}).get("metadata") or {}).get("name")
    return Write(
        event["verb"],
        resource,
        at.get("namespace", ""),
        name or "",
        event["responseStatus"]["code"],
    )


def pod(name: str, **spec: Any) -> Object:
    """Return a plain tenant pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}], **spec},
    }


def running_status(name: str) -> Object:
    """Return the status of a pod that runs."""
    began = "2026-01-01T00:00:00Z"
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": began}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "phase": "Running",
        "startTime": began,
        "podIP": "10.244.0.9",
        "podIPs": [{"ip": "10.244.0.9"}],
        "hostIP": "192.0.2.7",
        "hostIPs": [{"ip": "192.0.2.7"}],
        "conditions": ready,
        "containerStatuses": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "imageID": "sha256:1",
                "containerID": f"containerd://{name}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": began}},
            }
        ],
    }


def rules_of(rows: Sequence[Access]) -> list[Object]:
    return [
        {
            "apiGroups": [row.group],
            "resources": list(row.resources),
            "verbs": list(row.verbs),
            **({"resourceNames": list(row.names)} if row.names else {}),
        }
        for row in rows
    ]


async def grant(client: Client, rows: Sequence[Access]) -> None:
    """Let the syncer's user do what a table says, and nothing else."""
    kind = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": SYNCER},
        "rules": rules_of(rows),
    }
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": SYNCER},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": SYNCER},
        "subjects": [{"apiGroup": kind, "kind": "User", "name": SYNCER}],
    }
    await client.create(CLUSTER_ROLES, role)
    await client.create(CLUSTER_ROLE_BINDINGS, binding)


def tenant_plane(folder: Path, name: str, service_range: str = SLICE) -> ControlPlane:
    """Return a tenant's control plane, not started yet."""
    return ControlPlane(
        folder,
        name=name,
        service_range=service_range,
        audit=True,
        controllers=(_NAMESPACES, ACCOUNTS, _ROOT_CA),
    )


async def begin_super(plane: ControlPlane) -> None:
    """Start a super cluster that knows our kinds and the syncer."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        for path in sorted(CRDS.glob("*.yaml")):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
        await grant(client, SUPER_ACCESS)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
        await client.create(NAMESPACES, space)
        await eventually(lambda: client.list(VIRTUAL_CLUSTERS))


async def begin_tenant(plane: ControlPlane) -> None:
    """Start a tenant that knows the syncer."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        await grant(client, TENANT_ACCESS)


async def declare(
    below: Client, plane: ControlPlane, *, name: str = "", service_cidr: str = SLICE
) -> Tenant:
    """Declare a VirtualCluster whose control plane is this one, as vc-manager leaves it."""
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name or fresh_name("vc"), "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    }
    made = await below.create(VIRTUAL_CLUSTERS, body)
    metadata = made["metadata"]
    await below.patch(
        VIRTUAL_CLUSTERS,
        metadata["name"],
        {"status": {"serviceCidr": service_cidr}},
        namespace="default",
        subresource="status",
    )
    root = names.root_namespace("default", metadata["name"], metadata["uid"])
    tenant = Tenant(name=metadata["name"], namespace="default", uid=metadata["uid"], root=root)
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": root, "labels": ownership.labels(tenant, "")},
    }
    await below.create(NAMESPACES, space)
    await below.create(
        SECRETS,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "syncer-kubeconfig",
                "namespace": root,
                "labels": {
                    **ownership.labels(tenant, ""),
                    marks.CREDENTIAL: marks.CREDENTIAL_SYNCER,
                },
            },
            "stringData": {"syncer-kubeconfig": plane.kubeconfig(SYNCER, group="").decode()},
        },
    )
    return tenant


@pytest.fixture(autouse=True)
def _short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncer.reminders.LINGER_SECONDS", LINGER)


@pytest.fixture(scope="session")
def super_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A super cluster without nodes."""
    plane = ControlPlane(
        tmp_path_factory.mktemp("super"),
        name="super",
        audit=True,
        controllers=(_NAMESPACES, ACCOUNTS, _ROOT_CA),
    )
    asyncio.run(begin_super(plane))
    yield plane
    asyncio.run(plane.stop())


@pytest.fixture(scope="session")
def shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The tenant of all tests that leave its store alone."""
    plane = tenant_plane(tmp_path_factory.mktemp("tenant"), "tenant")
    asyncio.run(begin_tenant(plane))
    yield plane
    asyncio.run(plane.stop())


@pytest.fixture(scope="session")
def shared_tenant(super_plane: ControlPlane, shared_plane: ControlPlane) -> Tenant:
    """The VirtualCluster of the shared tenant."""

    async def make() -> Tenant:
        async with Client(super_plane.endpoint) as below:
            return await declare(below, shared_plane)

    return asyncio.run(make())


@pytest.fixture
async def world(
    super_plane: ControlPlane, shared_plane: ControlPlane, shared_tenant: Tenant
) -> AsyncIterator[World]:
    """The shared super cluster and tenant; no syncer runs yet."""
    async with Client(super_plane.endpoint) as below, Client(shared_plane.endpoint) as above:
        yield World(
            super_plane=super_plane,
            tenant_plane=shared_plane,
            tenant=shared_tenant,
            below=below,
            above=above,
        )


@pytest.fixture
async def synced(world: World) -> AsyncIterator[World]:
    """The shared world with a syncer that has come to rest."""
    async with world.syncer():
        yield world


@contextlib.asynccontextmanager
async def own_world(super_plane: ControlPlane, folder: Path) -> AsyncIterator[World]:
    """A tenant of the test's own, whose store it may break."""
    plane = tenant_plane(folder, folder.name)
    await begin_tenant(plane)
    try:
        async with Client(super_plane.endpoint) as below, Client(plane.endpoint) as above:
            tenant = await declare(below, plane)
            yield World(
                super_plane=super_plane,
                tenant_plane=plane,
                tenant=tenant,
                below=below,
                above=above,
            )
            with contextlib.suppress(NotFound):  # or every later syncer would call for it
                await below.delete(VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace)
    finally:
        await plane.stop()


def shown(value: object) -> str:
    """Return a value as a failing assert should show it."""
    return json.dumps(value, indent=1, sort_keys=True, default=str)
