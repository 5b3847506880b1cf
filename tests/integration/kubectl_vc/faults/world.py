"""One installation with one tenant on two real API servers, in which everything works.

A fault changes one part of it, as a real cluster would. A second tenant and a second node lie
beside it. Their names are canaries: a tenant must never read one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    STORAGE_CLASSES,
    SUPER_CLUSTERS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.integration.kubectl_vc.faults import shapes
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.kubectl_vc.command_runner import CommandResult, invoke
from tests.support.names import fresh_name

NODE, HIDDEN_NODE, OTHERS = "node-a", "zz-hidden-node", "zz-other"
"""Node that the tenant sees, node that its policy hides, and part of all names of others."""
VERSION = "v1.36"
COMPONENTS = (wellknown.MANAGER, wellknown.SYNCER)
SOUND = (
    wellknown.CERTIFICATES_READY,
    wellknown.ETCD_READY,
    wellknown.ETCD_MEMBERS_READY,
    wellknown.API_SERVER_READY,
    wellknown.CONTROLLER_MANAGER_READY,
    wellknown.DNS_READY,
    wellknown.READY,
)


@dataclass(kw_only=True)
class FaultWorld:
    """An installation, a tenant, and the two clusters that they are in."""

    below: Client
    above: Client
    plane: LocalControlPlane
    tenant_plane: LocalControlPlane
    folder: Path
    home: str
    """Namespace of the components."""
    tenant: Tenant
    space: str
    """Namespace in the tenant."""
    undone: contextlib.AsyncExitStack
    conditions: dict[str, Object] = field(default_factory=dict)

    @property
    def super_space(self) -> str:
        """Return the super namespace of the tenant's namespace."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, self.space)

    @property
    def canaries(self) -> tuple[str, ...]:
        """Return names that must never be in the tenant's view."""
        return OTHERS, HIDDEN_NODE, self.tenant.root, self.super_space, self.tenant.uid, self.home

    # The tenant.

    async def report(self, kind: str, value: str, reason: str, message: str = "") -> None:
        """Write a condition of the VirtualCluster, as vc-manager or the syncer does."""
        self.conditions[kind] = {
            **shapes.condition(kind, value),
            "reason": reason,
            "message": message,
            "observedGeneration": 1,
        }
        await self.patch_tenant({"status": {"conditions": [*self.conditions.values()]}}, "status")

    async def patch_tenant(self, change: Object, subresource: str = "") -> None:
        """Change the VirtualCluster."""
        await self.below.patch(
            VIRTUAL_CLUSTERS,
            self.tenant.name,
            change,
            namespace=self.tenant.namespace,
            subresource=subresource,
        )

    async def write_kubeconfig(self, content: bytes) -> None:
        """Replace the kubeconfig of the tenant's administrator."""
        body = {"stringData": {"admin-kubeconfig": content.decode()}}
        await self.below.patch(SECRETS, "admin-kubeconfig", body, namespace=self.tenant.root)

    async def write_certificates(self, days: float) -> None:
        """Write the table of certificates, the first of which ends in some days."""
        ends = datetime.now(UTC) + timedelta(days=days)
        row = {"name": "apiserver", "expires": ends.isoformat()}
        body = {"data": {wellknown.CERTIFICATES_KEY: json.dumps([row])}}
        await self.below.patch(
            CONFIG_MAPS, wellknown.CERTIFICATES, body, namespace=self.tenant.root
        )

    # Objects of both sides.

    async def pod(
        self,
        status: Object | None = None,
        *,
        copy_status: Object | None = None,
        name: str = "web",
        node: str = NODE,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        """Create a pod of the tenant. With a status, it has a copy in the same state."""
        wanted = shapes.pod(name, self.space, node=node if status else "", **spec)
        wanted["metadata"]["labels"] |= dict(labels or {})
        made = await self.above.create(PODS, wanted)
        if status is None:
            return made
        copied = shapes.pod(name, self.super_space, node=node, **spec)
        await self.copy(PODS, made, copied)
        for client, namespace, body in (
            (self.above, self.space, status),
            (self.below, self.super_space, copy_status or status),
        ):
            found = {"status": body}
            await client.patch(PODS, name, found, namespace=namespace, subresource="status")
        return made

    async def copy(self, resource: Resource, made: Object, body: Object) -> Object:
        """Create the copy of an object, with the marks of the syncer."""
        body["metadata"] |= {
            "namespace": self.super_space,
            "labels": {
                **(body["metadata"].get("labels") or {}),
                **ownership.build_owner_labels(self.tenant, self.space),
            },
            "annotations": ownership.build_owner_annotations(
                self.tenant, self.space, made["metadata"]["uid"]
            ),
        }
        return await self.below.create(resource, body)

    async def claim(self, name: str, phase: str, storage_class: str | None = None) -> Object:
        """Create a claim on both sides, in a phase."""
        made = await self.above.create(
            PERSISTENT_VOLUME_CLAIMS, shapes.claim(name, self.space, storage_class)
        )
        await self.copy(
            PERSISTENT_VOLUME_CLAIMS, made, shapes.claim(name, self.super_space, storage_class)
        )
        for client, namespace in ((self.above, self.space), (self.below, self.super_space)):
            await set_status(client, PERSISTENT_VOLUME_CLAIMS, name, namespace, {"phase": phase})
        return made

    async def tell(self, body: Object, reason: str, message: str, **more: Any) -> None:
        """Write an Event of the syncer in the tenant."""
        await tell(self.above, body, reason, message, component=wellknown.SYNCER, **more)

    async def tell_both(self, body: Object, reason: str, message: str, component: str) -> None:
        """Write an Event about a copy, and the same one in the tenant as the syncer copies it.

        The one about the copy also names a node that the tenant must not see.
        """
        await tell(self.above, body, reason, message, component=component)
        place = await self.below.get(PODS, body["metadata"]["name"], namespace=self.super_space)
        text = f"{message} (seen on {HIDDEN_NODE} beside {OTHERS}-1)"
        await tell(self.below, place, reason, text, component=component)

    # The installation.

    async def scale(self, name: str, *, wanted: int = 1, ready: int = 1) -> None:
        """Write how many replicas of a component are wanted and ready."""
        spec = {"spec": {"replicas": wanted}}
        await self.below.patch(DEPLOYMENTS, name, spec, namespace=self.home)
        status = {"replicas": wanted, "readyReplicas": ready, "observedGeneration": 1}
        await set_status(self.below, DEPLOYMENTS, name, self.home, status)

    async def renew(self, name: str, seconds: float) -> None:
        """Write the Lease of a component as renewed some seconds ago."""
        change = {"spec": shapes.lease_spec(seconds)}
        await self.below.patch(LEASES, name, change, namespace=self.home)

    async def change(self, resource: Resource, name: str, change: Object, back: Object) -> None:
        """Change an object of the whole cluster until the end of the fault."""
        subresource = "status" if "status" in change else ""
        await self.below.patch(resource, name, change, subresource=subresource)
        self.undone.push_async_callback(
            self.below.patch, resource, name, back, subresource=subresource
        )

    async def add(self, resource: Resource, body: Object) -> Object:
        """Create an object of the whole cluster until the end of the fault."""
        made = await self.below.create(resource, body)
        self.undone.push_async_callback(self.below.delete, resource, body["metadata"]["name"])
        return made

    async def remove(self, resource: Resource, name: str) -> None:
        """Delete an object of the whole cluster until the end of the fault."""
        body = await self.below.get(resource, name)
        for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            body["metadata"].pop(key, None)
        body.pop("status", None)
        await self.below.delete(resource, name)
        # A definition is deleted with its objects, which takes the server a moment.
        self.undone.push_async_callback(eventually, lambda: self.below.create(resource, body))

    async def join(self, name: str, reason: str, message: str) -> None:
        """Declare a target that is not ready."""
        body = {
            "apiVersion": SUPER_CLUSTERS.api_version,
            "kind": SUPER_CLUSTERS.kind,
            "metadata": {"name": name},
            "spec": {
                "server": "https://c2.example.org:6443",
                "secretRef": {"name": f"{name}-credential"},
            },
        }
        await self.add(SUPER_CLUSTERS, body)
        found = [
            shapes.condition("Reachable", "False", reason, message),
            shapes.condition("Ready", "False", reason, message),
        ]
        await set_status(self.below, SUPER_CLUSTERS, name, "", {"conditions": found})

    # The command line.

    async def run(self, *words: str, kubeconfig: str = "super") -> CommandResult:
        """Run a verb as a person does."""
        environment = {"KUBECONFIG": str(self.folder / kubeconfig)}

        def finish() -> CommandResult:
            return invoke(*words, env=environment)

        return await asyncio.to_thread(finish)

    async def why(self, wanted: str, *more: str) -> CommandResult:
        """Run `why` as the administrator of the super cluster."""
        tenant = f"{self.tenant.namespace}/{self.tenant.name}"
        return await self.run(
            *("why", wanted, "-n", self.space, "--vc", tenant, "-o", "json"),
            *("--manager-namespace", self.home),
            *more,
        )

    async def ask_as_tenant(self, wanted: str) -> list[CommandResult]:
        """Return both views of a tenant: that of `--as-tenant`, and its own kubeconfig."""
        own = ("why", wanted, "-n", self.space)
        return [
            await self.why(wanted, "--as-tenant"),
            await self.run(*own, "-o", "json", kubeconfig="tenant"),
            await self.run(*own, kubeconfig="tenant"),
        ]

    async def doctor(self, *, of_tenant: bool) -> CommandResult:
        """Run `doctor`, with the name of the tenant or without."""
        named = (self.tenant.name, "-n", self.tenant.namespace) if of_tenant else ()
        return await self.run("doctor", *named, "-o", "json", "--manager-namespace", self.home)


async def set_status(
    client: Client, resource: Resource, name: str, namespace: str, status: Object
) -> None:
    """Write the status of an object."""
    await client.patch(
        resource, name, {"status": status}, namespace=namespace, subresource="status"
    )


async def tell(
    client: Client,
    body: Object,
    reason: str,
    message: str,
    *,
    component: str,
    seconds: float = 30,
) -> None:
    """Write an Event about an object."""
    metadata = body["metadata"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "e-", "namespace": metadata["namespace"]},
        "involvedObject": {
            "kind": body["kind"],
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "firstTimestamp": shapes.ago(seconds + 60),
        "lastTimestamp": shapes.ago(seconds),
        "source": {"component": component},
    }
    await client.create(EVENTS, event)


async def furnish_super(client: Client) -> None:
    """Create what all faults share: nodes, classes, a version, and another tenant."""
    for name in (NODE, HIDDEN_NODE):
        await client.create(NODES, {"metadata": {"name": name}})
        await set_status(client, NODES, name, "", {"conditions": [shapes.condition("Ready")]})
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, mode, marks in (
        ("standard", "WaitForFirstConsumer", default),
        ("immediate", "Immediate", {}),
    ):
        body: Object = {
            "metadata": {"name": name, "annotations": marks},
            "provisioner": "disk.example.com",
            "volumeBindingMode": mode,
        }
        await client.create(STORAGE_CLASSES, body)
    version = {
        "apiVersion": CLUSTER_VERSIONS.api_version,
        "kind": "ClusterVersion",
        "metadata": {"name": VERSION},
        "spec": {"kubernetesVersion": "1.36"},
    }
    await client.create(CLUSTER_VERSIONS, version)
    other = await declare(client, f"{OTHERS}-1")
    space = await _create_super_space(client, other, f"{OTHERS}-shop")
    made = await client.create(PODS, shapes.pod(f"{OTHERS}-pod", space, node=NODE))
    await tell(client, made, "Failed", f"{OTHERS} failed on {NODE}", component="kubelet")
    await client.create(PODS, shapes.pod(f"{OTHERS}-etcd-0", other.root, node=HIDDEN_NODE))


async def declare(client: Client, name: str, **spec: Any) -> Tenant:
    """Create a VirtualCluster and its root namespace."""
    wanted = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterVersionName": VERSION, **spec},
    }
    body = await client.create(VIRTUAL_CLUSTERS, wanted)
    uid = body["metadata"]["uid"]
    root = names.build_root_namespace("default", name, uid)
    tenant = Tenant(name=name, namespace="default", uid=uid, root=root)
    metadata = {"name": root, "labels": ownership.build_owner_labels(tenant, "")}
    await client.create(NAMESPACES, {"metadata": metadata})
    return tenant


async def _create_super_space(client: Client, tenant: Tenant, space: str) -> str:
    name = names.build_super_namespace(tenant.root, tenant.uid, space)
    metadata = {
        "name": name,
        "labels": ownership.build_owner_labels(tenant, space),
        "annotations": ownership.build_owner_annotations(tenant, space, "u"),
    }
    await client.create(NAMESPACES, {"metadata": metadata})
    return name


@contextlib.asynccontextmanager
async def sound_world(
    plane: LocalControlPlane, tenant_plane: LocalControlPlane, folder: Path
) -> AsyncIterator[FaultWorld]:
    """Create an installation and a tenant in which everything works."""
    async with (
        Client(plane.endpoint) as below,
        Client(tenant_plane.endpoint) as above,
        contextlib.AsyncExitStack() as undone,
    ):
        found = FaultWorld(
            below=below,
            above=above,
            plane=plane,
            tenant_plane=tenant_plane,
            folder=folder,
            home=fresh_name("home"),
            tenant=await declare(below, fresh_name("web")),
            space=fresh_name("shop"),
            undone=undone,
        )
        await _install(found)
        await _start_tenant(found)
        yield found


async def _install(world: FaultWorld) -> None:
    """Create the components, each of which works."""
    below, home = world.below, world.home
    await below.create(NAMESPACES, {"metadata": {"name": home}})
    for name in COMPONENTS:
        await below.create(DEPLOYMENTS, shapes.workload("Deployment", name, home))
        await world.scale(name)
        lease = {"metadata": {"name": name}, "spec": shapes.lease_spec(1)}
        await below.create(LEASES, lease, namespace=home)
    made = await below.create(DAEMON_SETS, shapes.workload("DaemonSet", wellknown.AGENT, home))
    await report_agents(world, ready=2)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": wellknown.AGENT,
        "uid": made["metadata"]["uid"],
    }
    for node in (NODE, HIDDEN_NODE):
        body = shapes.pod(f"vn-agent-{node}", home, node=node)
        body["metadata"]["ownerReferences"] = [owner]
        await below.create(PODS, body)
        await set_status(below, PODS, body["metadata"]["name"], home, shapes.running())


async def report_agents(world: FaultWorld, *, ready: int) -> None:
    """Write how many of the two agents are ready."""
    status = {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": ready,
    }
    await set_status(world.below, DAEMON_SETS, wellknown.AGENT, world.home, status)


async def _start_tenant(world: FaultWorld) -> None:
    """Create the control plane of the tenant as vc-manager leaves it, and its first namespace."""
    below, above, root = world.below, world.above, world.tenant.root
    secret = {
        "metadata": {"name": "admin-kubeconfig", "namespace": root},
        "stringData": {"admin-kubeconfig": world.tenant_plane.kubeconfig().decode()},
    }
    await below.create(SECRETS, secret)
    await below.create(CONFIG_MAPS, {"metadata": {"name": wellknown.CERTIFICATES}}, namespace=root)
    await world.write_certificates(300)
    await below.create(PERSISTENT_VOLUME_CLAIMS, shapes.claim("data-etcd-0", root, "standard"))
    await set_status(below, PERSISTENT_VOLUME_CLAIMS, "data-etcd-0", root, {"phase": "Bound"})
    for name in ("etcd-0", "apiserver-0", "controller-manager-0"):
        await below.create(PODS, shapes.pod(name, root, node=HIDDEN_NODE))
        await set_status(below, PODS, name, root, shapes.running())
    for kind in SOUND:
        world.conditions[kind] = {
            **shapes.condition(kind),
            "reason": "Ready",
            "message": "",
            "observedGeneration": 1,
        }
    await world.report(wellknown.SYNCED, "True", "Engaged")
    await above.create(NAMESPACES, {"metadata": {"name": world.space}})
    with contextlib.suppress(errors.AlreadyExists):
        await above.create(NODES, {"metadata": {"name": NODE}})
    await set_status(above, NODES, NODE, "", {"conditions": [shapes.condition("Ready")]})
    await _create_super_space(below, world.tenant, world.space)
