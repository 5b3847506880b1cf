"""A super cluster's API with our CRDs, the manager under the rights that its table grants, and a
hand that plays kubelet: pods run when a test says so.

Hazard: the plane is shared. Tests use VirtualClusters of their own and delete nothing of others.
"""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.api.event_recorder import EventRecorder
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import Result
from tenancy import names, resources, wellknown
from tests.support import grants, played_kubelet
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.declared_tenants import install_crds
from tests.support.processes import free_port
from vcmanager.rbac import RBAC_RULES
from vcmanager.reconcilers.virtual_cluster import reconcile_virtual_cluster
from vcmanager.runtime import keys
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.options import OperatorSettings
from vcmanager.targets.clients import TargetClientCache

NAMESPACE = "vc-manager"
USER = "vc-manager"
NODE_ADDRESS = "192.0.2.11"
CONTROLLERS = (
    "serviceaccount-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "job-controller",
)
SERVICE_RANGE = "10.96.0.0/14"
"""Service range of the super cluster and of the stand-in for the APIs of tenants.

It has room for the 256 tenants that a whole run of tests leaves behind.
"""
_PATIENCE = 60.0
_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """The super cluster's API."""
    with installed(tmp_path_factory.mktemp("super")) as made:
        yield made


@contextlib.contextmanager
def installed(
    folder: Path, *switches: str, controllers: Sequence[str] = CONTROLLERS
) -> Iterator[LocalControlPlane]:
    """Run an API server that knows our kinds and accounts. `switches` are values of the chart."""
    made = LocalControlPlane(
        folder,
        name="super",
        service_range=SERVICE_RANGE,
        audit=True,
        controllers=controllers,
    )
    with serving(made, functools.partial(_install, switches=switches)):
        yield made


@pytest.fixture(scope="package")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A stand-in for the API of every tenant, at any address of a service range."""
    made = LocalControlPlane(
        tmp_path_factory.mktemp("inside"),
        name="inside",
        service_range=SERVICE_RANGE,
        controllers=("serviceaccount-controller",),
    )
    with serving(made):
        yield made


async def _install(client: Client, switches: Sequence[str] = ()) -> None:
    await install_crds(client)
    own = (resources.VIRTUAL_CLUSTERS, resources.CLUSTER_VERSIONS, resources.TENANT_POLICIES)
    for resource in own:
        for _ in range(200):
            try:
                await client.list(resource)
            except errors.NotFound:
                await asyncio.sleep(0.05)
            else:
                break
    await client.create(resources.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await client.create(resources.CLUSTER_VERSIONS, cluster_version("v1.36"))
    await client.create(resources.NODES, {"metadata": {"name": "node-1"}})
    status = {
        "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await client.patch(resources.NODES, "node-1", {"status": status}, subresource="status")
    for namespace in ("", NAMESPACE):
        rows = [row for row in RBAC_RULES if row.namespaced is bool(namespace)]
        await grants.grant(client, rows, USER, namespace=namespace)
    image = "image.registry=registry.example,image.tag=1"
    component = wellknown.MANAGER
    await grants.guard(client, USER, component=component, values=image, switches=switches)


def cluster_version(name: str, **spec: Any) -> Object:
    """Return a ClusterVersion, of the short form unless told otherwise."""
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "ClusterVersion",
        "metadata": {"name": name},
        "spec": spec or {"kubernetesVersion": "1.36", "serviceType": "ClusterIP"},
    }


class SinglePlaneClients:
    """Stands where the clients of tenants are: all tenants are one ready-made plane."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.dropped: list[str] = []

    async def get(self, _uid: str, kubeconfig: bytes, **_: Any) -> Client:
        """Return the client of the one plane."""
        assert b"client-key-data" in kubeconfig
        return self.client

    async def drop(self, uid: str) -> None:
        """Remember who was dropped."""
        self.dropped.append(uid)


@dataclass(frozen=True, kw_only=True)
class ManagerStage:
    """The manager, and what people and kubelets do around it."""

    plane: LocalControlPlane
    admin: Client
    """The super admin."""
    manager: Client
    """The manager under its own rights."""
    means: ReconcileContext
    tenants: SinglePlaneClients
    nowhere: Client
    """A tenant that does not answer."""
    woken: list[ReconcileKey]

    async def declare(self, name: str = "", **spec: Any) -> Object:
        """Create a VirtualCluster in namespace default."""
        body = {
            "apiVersion": "tenancy.x-k8s.io/v1alpha1",
            "kind": "VirtualCluster",
            "metadata": {"name": name or f"t{next(_numbers)}", "namespace": "default"},
            "spec": {"clusterVersionName": "v1.36", **spec},
        }
        return await self.admin.create(resources.VIRTUAL_CLUSTERS, body)

    async def work(self, cluster: Object, times: int = 1) -> Result:
        """Reconcile a VirtualCluster."""
        metadata = cluster["metadata"]
        key = keys.build_virtual_cluster_key(metadata["namespace"], metadata["name"])
        for _ in range(times - 1):
            await reconcile_virtual_cluster(self.means, key)
        return await reconcile_virtual_cluster(self.means, key)

    async def fresh(self, cluster: Object) -> Object:
        """Return a VirtualCluster as it is now."""
        metadata = cluster["metadata"]
        return await self.admin.get(
            resources.VIRTUAL_CLUSTERS, metadata["name"], namespace=metadata["namespace"]
        )

    async def condition(self, cluster: Object, kind: str) -> Object | None:
        """Return a condition of a VirtualCluster."""
        listed = (await self.fresh(cluster)).get("status", {}).get("conditions", [])
        return next((each for each in listed if each["type"] == kind), None)

    def root(self, cluster: Object) -> str:
        """Return the root namespace of a VirtualCluster."""
        metadata = cluster["metadata"]
        return names.build_root_namespace(metadata["namespace"], metadata["name"], metadata["uid"])

    async def names_of(self, resource: resources.Resource, cluster: Object) -> set[str]:
        """Return the names of the objects of a kind in a root namespace."""
        page = await self.admin.list(resource, namespace=self.root(cluster))
        return {each["metadata"]["name"] for each in page.get("items") or ()}

    async def secret(self, cluster: Object, name: str) -> Object:
        """Return a Secret of a root namespace."""
        return await self.admin.get(resources.SECRETS, name, namespace=self.root(cluster))

    async def run_pods(self, cluster: Object) -> None:
        """Play kubelet: every pod of a root namespace is bound, started and ready."""
        await played_kubelet.run_pods(self.admin, self.root(cluster))

    async def bring_up(self, cluster: Object) -> None:
        """Work and run pods in turn until the VirtualCluster is ready."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + _PATIENCE
        while loop.time() < ends:
            await self.work(cluster)
            ready = await self.condition(cluster, "Ready")
            if ready and ready["status"] == "True":
                return
            await self.run_pods(cluster)
            await asyncio.sleep(0.05)
        raise AssertionError(f"never ready: {(await self.fresh(cluster))['status']}")

    async def tear_down(self, cluster: Object) -> None:
        """Delete a VirtualCluster and work until it is gone. Pods end when asked to."""
        metadata = cluster["metadata"]
        await self.admin.delete(
            resources.VIRTUAL_CLUSTERS, metadata["name"], namespace=metadata["namespace"]
        )
        loop = asyncio.get_running_loop()
        ends = loop.time() + _PATIENCE
        while loop.time() < ends:
            await self.work(cluster)
            try:
                await self.fresh(cluster)
            except errors.NotFound:
                return
            await self.end_pods(cluster)
            await asyncio.sleep(0.05)
        raise AssertionError(f"never gone: {(await self.fresh(cluster))['status']}")

    async def end_pods(self, cluster: Object) -> None:
        """Play kubelet: pods that are asked to end are gone."""
        await played_kubelet.end_pods(self.admin, self.root(cluster))


@pytest.fixture
async def stage(plane: LocalControlPlane, inside: LocalControlPlane) -> AsyncIterator[ManagerStage]:
    async with (
        Client(plane.endpoint) as admin,
        Client(plane.endpoint_for(USER)) as manager,
        Client(inside.endpoint) as tenant,
        Client(Endpoint(server=f"https://127.0.0.1:{free_port()}")) as nowhere,
    ):
        with contextlib.suppress(errors.NotFound):  # another test's tenant had another slice
            await tenant.delete(resources.SERVICES, "kube-dns", namespace="kube-system")
        recorder = EventRecorder(manager, component="vc-manager")
        posting = asyncio.ensure_future(recorder.run())
        woken: list[ReconcileKey] = []
        tenants = SinglePlaneClients(tenant)
        means = ReconcileContext(
            super_client=manager,
            settings=OperatorSettings(
                registry="registry.example/vc", own_image="registry.example/vc-manager:1"
            ),
            namespace=NAMESPACE,
            recorder=recorder,
            now=lambda: datetime.now(UTC),
            enqueue=woken.append,
            enqueue_after=lambda key, _: woken.append(key),
            tenant_clients=tenants,  # type: ignore[arg-type]
            target_clients=TargetClientCache(),
        )
        yield ManagerStage(
            plane=plane,
            admin=admin,
            manager=manager,
            means=means,
            tenants=tenants,
            nowhere=nowhere,
            woken=woken,
        )
        posting.cancel()
        await asyncio.wait([posting])
