"""A second super cluster of real servers, at an address of this machine that is not loopback.

`kubectl vc target join` and vc-manager do not run here. The tests write their objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import NotFound
from syncer.clusters.target_cluster import TargetCluster
from tenancy.resources import (
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SUPER_CLUSTERS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.integration.syncer.objects import running_status
from tests.integration.syncer.world import HOME, SYNCER, SyncerWorld
from tests.support.controlplane import ACCOUNTS, LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.grants import grant_target
from tests.support.names import fresh_name
from tests.support.own_address import with_own_address

NODE = "there-1"


def plane_of(folder: Path) -> LocalControlPlane:
    """Return a second cluster, not started yet."""
    return LocalControlPlane(
        folder,
        name="second",
        service_range="10.98.0.0/16",
        audit=True,
        controllers=("namespace-controller", ACCOUNTS),
        api_args={"bind-address": "0.0.0.0"},  # noqa: S104 - to be reached by another address
    )


def running(folder: Path) -> Iterator[LocalControlPlane]:
    """Run a second cluster, where the syncer has the rights of the role for targets."""
    with serving(plane_of(folder), lambda client: grant_target(client, SYNCER)) as plane:
        yield plane


@dataclass(kw_only=True)
class TargetWorld:
    """A target of the home cluster, and all actors there."""

    world: SyncerWorld
    plane: LocalControlPlane
    target_client: Client
    name: str

    @property
    def server(self) -> str:
        """The address that other machines reach."""
        return with_own_address(self.plane.server)

    async def secret(self, user: str = SYNCER, *, plane: LocalControlPlane | None = None) -> None:
        """Write the Secret."""
        content = (plane or self.plane).kubeconfig(user, group="").decode()
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name, "namespace": HOME},
            "stringData": {"kubeconfig": with_own_address(content)},
        }
        await self.world.super_client.apply(SECRETS, body, field_manager="test")

    async def declare(self, **spec: object) -> Object:
        """Create the SuperCluster with the status that vc-manager writes."""
        body = {
            "apiVersion": SUPER_CLUSTERS.api_version,
            "kind": "SuperCluster",
            "metadata": {"name": self.name},
            "spec": {
                "secretRef": {"name": self.name},
                "tlsServerName": "kubernetes",
                "network": {"resolvers": ["10.98.0.10"]},
                **spec,
            },
        }
        made = await self.world.super_client.create(SUPER_CLUSTERS, body)
        system = await self.target_client.get(NAMESPACES, "kube-system")
        await self.judge(
            identity=system["metadata"]["uid"], version=await self.target_client.version()
        )
        return made

    async def judge(self, **status: object) -> None:
        """Write the status as vc-manager does, with the condition Ready and more."""
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "It is.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"conditions": [ready], **status}
        await self.world.super_client.patch(
            SUPER_CLUSTERS, self.name, {"status": status}, subresource="status"
        )

    @property
    def node(self) -> str:
        """The virtual node of the target in the tenant."""
        return f"target-{self.name}"

    async def grant(self, *targets: dict[str, object]) -> None:
        """Grant the tenant super clusters, and give its API a reachable address."""
        tenant = self.world.tenant
        await self.world.super_client.patch(
            VIRTUAL_CLUSTERS,
            tenant.name,
            {"spec": {"targets": list(targets) or None}},
            namespace=tenant.namespace,
        )
        await self.world.super_client.patch(
            VIRTUAL_CLUSTERS,
            tenant.name,
            {"status": {"endpoint": "https://192.0.2.8:6443"}},
            namespace=tenant.namespace,
            subresource="status",
        )

    async def granted(self, *targets: dict[str, object]) -> None:
        """Declare the target, grant it beside home by default, and wait for its node."""
        await self.secret()
        await self.declare()
        await self.grant(*(targets or ({"name": "home"}, {"name": self.name})))
        await eventually(lambda: self.world.tenant_client.get(NODES, self.node))

    async def wait_node_label(self, key: str, value: str | None) -> None:
        """Wait until its node in the tenant has a label with this value, or lacks it for None."""
        await eventually(
            lambda: self.world.tenant_client.get(NODES, self.node),
            until=lambda found: found["metadata"]["labels"].get(key) == value,
        )

    async def twin(self, namespace: str, name: str, kind: Resource = PODS) -> Object:
        """Return the twin there. Raises NotFound."""
        return await self.target_client.get(
            kind, name, namespace=self.world.super_namespace(namespace)
        )

    async def has_twin(self, namespace: str, name: str, kind: Resource = PODS) -> bool:
        """Return whether the twin exists there."""
        try:
            await self.twin(namespace, name, kind)
        except NotFound:
            return False
        return True

    async def start_pod(self, namespace: str, name: str) -> None:
        """Bind and start the twin there, as a scheduler and a kubelet do."""
        super_space = self.world.super_namespace(namespace)
        await eventually(lambda: self.twin(namespace, name))
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": super_space},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        }
        await self.target_client.create(
            PODS, binding, namespace=super_space, name=name, subresource="binding"
        )
        await self.target_client.patch(
            PODS,
            name,
            {"status": running_status(name)},
            namespace=super_space,
            subresource="status",
        )

    async def remove_pod(self, namespace: str, name: str) -> None:
        """Delete a terminating twin, as its kubelet does."""
        super_space = self.world.super_namespace(namespace)
        await eventually(
            lambda: self.twin(namespace, name),
            until=lambda found: "deletionTimestamp" in found["metadata"],
        )
        await self.target_client.delete(PODS, name, namespace=super_space, grace_seconds=0)

    def target(self) -> TargetCluster | None:
        """Return the target as the running syncer follows it."""
        found = self.world.running[-1].targets.targets.get(self.name)
        return found if found is not None and found.is_ready else None


@contextlib.asynccontextmanager
async def open_target_world(
    world: SyncerWorld, plane: LocalControlPlane
) -> AsyncIterator[TargetWorld]:
    """Yield a target for the length of a block. A test that needs it declares it."""
    async with Client(plane.endpoint) as there:
        found = TargetWorld(world=world, plane=plane, target_client=there, name=fresh_name("c"))
        try:
            yield found
        finally:
            await found.grant()
            with contextlib.suppress(NotFound):
                await world.super_client.delete(SUPER_CLUSTERS, found.name)


async def has_node(there: Client, name: str = NODE) -> None:
    """Register a node there that can take pods."""
    node = {"metadata": {"name": name}, "spec": {"podCIDR": "10.77.0.0/24"}}
    await there.create(NODES, node)
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await there.patch(NODES, name, {"status": status}, subresource="status")
