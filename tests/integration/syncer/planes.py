"""The servers of a super cluster and of tenants: made, started, and declared as vc-manager does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import yaml

from kubeio.api.client import Client
from kubeio.errors import NotFound
from syncer.rbac import SUPER_RBAC_RULES, TENANT_RBAC_RULES
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, VIRTUAL_CLUSTERS
from tests.integration.syncer.rights import grant, guard
from tests.integration.syncer.world import HOME, SYNCER, SyncerWorld, names_of_others
from tests.support.controlplane import ACCOUNTS, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tools.testbed import product

CRDS = product.REPOSITORY / "charts" / "virtual-cluster" / "files" / "crds"
SLICE = "10.96.8.0/22"
_NAMESPACES = "namespace-controller"
_ROOT_CA = "root-ca-certificate-publisher-controller"
_PROTECTIONS = (
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
_BINDER = "persistentvolume-binder-controller"


def tenant_plane(
    folder: Path,
    name: str,
    service_range: str = SLICE,
    minor: str | None = None,
    *,
    api_args: Mapping[str, str] | None = None,
    controllers: Sequence[str] = (),
) -> LocalControlPlane:
    """Return a tenant's control plane, not started yet; `controllers` beside those of all."""
    return LocalControlPlane(
        folder,
        name=name,
        service_range=service_range,
        audit=True,
        controllers=(_NAMESPACES, ACCOUNTS, _ROOT_CA, *_PROTECTIONS, *controllers),
        minor=minor,
        api_args=api_args,
    )


def super_plane_of(folder: Path, minor: str | None = None) -> LocalControlPlane:
    """Return a super cluster without nodes, not started yet."""
    return LocalControlPlane(
        folder,
        name="super",
        minor=minor,
        audit=True,
        controllers=(_NAMESPACES, ACCOUNTS, _ROOT_CA, *_PROTECTIONS, _BINDER),
    )


async def begin_super(plane: LocalControlPlane) -> None:
    """Start a super cluster that knows our kinds and the syncer."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        for path in sorted(CRDS.glob("*.yaml")):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
        await grant(client, SUPER_RBAC_RULES)
        await guard(client)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
        await client.create(NAMESPACES, space)
        await eventually(lambda: client.list(VIRTUAL_CLUSTERS))


async def begin_tenant(plane: LocalControlPlane) -> None:
    """Start a tenant that knows the syncer."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        await grant(client, TENANT_RBAC_RULES)


async def declare(
    below: Client, plane: LocalControlPlane, *, name: str = "", service_cidr: str = SLICE
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
    root = names.build_root_namespace("default", metadata["name"], metadata["uid"])
    tenant = Tenant(name=metadata["name"], namespace="default", uid=metadata["uid"], root=root)
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": root, "labels": ownership.build_owner_labels(tenant, "")},
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
                    **ownership.build_owner_labels(tenant, ""),
                    wellknown.CREDENTIAL: wellknown.CREDENTIAL_SYNCER,
                },
            },
            "stringData": {"syncer-kubeconfig": plane.kubeconfig(SYNCER, group="").decode()},
        },
    )
    return tenant


@contextlib.asynccontextmanager
async def own_world(
    super_plane: LocalControlPlane, folder: Path, api_args: Mapping[str, str] | None = None
) -> AsyncIterator[SyncerWorld]:
    """A tenant of the test's own, whose store it may break."""
    plane = tenant_plane(folder, folder.name, api_args=api_args)
    await begin_tenant(plane)
    try:
        async with Client(super_plane.endpoint) as below, Client(plane.endpoint) as above:
            tenant = await declare(below, plane)
            yield SyncerWorld(
                super_plane=super_plane,
                tenant_plane=plane,
                tenant=tenant,
                below=below,
                above=above,
                others=await names_of_others(below, above, tenant),
            )
            with contextlib.suppress(NotFound):  # or every later syncer would call for it
                await below.delete(VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace)
    finally:
        await plane.stop()
