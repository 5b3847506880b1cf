"""Control planes of a super cluster and of tenants, declared as vc-manager does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from kubeio.api.client import Client
from kubeio.errors import NotFound
from syncer.rbac import TENANT_RBAC_RULES
from tenancy.ownership import Tenant
from tenancy.resources import VIRTUAL_CLUSTERS
from tests.integration.syncer.rights import grant
from tests.integration.syncer.world import SYNCER, SyncerWorld, names_of_others
from tests.support import declared_tenants
from tests.support.controlplane import ACCOUNTS, LocalControlPlane
from tests.support.names import fresh_name

SLICE = "10.96.8.0/22"
_NAMESPACES = "namespace-controller"
_ROOT_CA = "root-ca-certificate-publisher-controller"
_PROTECTIONS = (
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
_QUOTAS = "resourcequota-controller"
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
    """Return a tenant's control plane, not started yet. `controllers` are additional ones.

    Like the product's, its API server taints no new nodes. No controller would remove the taint.
    """
    return LocalControlPlane(
        folder,
        name=name,
        service_range=service_range,
        audit=True,
        controllers=(_NAMESPACES, ACCOUNTS, _ROOT_CA, *_PROTECTIONS, *controllers),
        minor=minor,
        api_args={"disable-admission-plugins": "TaintNodesByCondition", **(api_args or {})},
    )


def super_plane_of(folder: Path, minor: str | None = None) -> LocalControlPlane:
    """Return a super cluster without nodes, not started yet."""
    return LocalControlPlane(
        folder,
        name="super",
        minor=minor,
        audit=True,
        controllers=(_NAMESPACES, ACCOUNTS, _ROOT_CA, *_PROTECTIONS, _BINDER, _QUOTAS),
    )


async def begin_super(plane: LocalControlPlane) -> None:
    """Start a super cluster with the product's CRDs and the syncer's rights."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        await declared_tenants.install(client, SYNCER, gate=True)


async def begin_tenant(plane: LocalControlPlane) -> None:
    """Start a tenant with the syncer's rights."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        await grant(client, TENANT_RBAC_RULES)


async def declare(
    super_client: Client, plane: LocalControlPlane, *, name: str = "", service_cidr: str = SLICE
) -> Tenant:
    """Declare a VirtualCluster for a control plane, as vc-manager does."""
    return await declared_tenants.enlist(
        super_client,
        {"syncer": plane.kubeconfig(SYNCER, group="")},
        name=name or fresh_name("vc"),
        service_range=service_cidr,
    )


@contextlib.asynccontextmanager
async def own_world(
    super_plane: LocalControlPlane,
    folder: Path,
    api_args: Mapping[str, str] | None = None,
    controllers: Sequence[str] = (),
) -> AsyncIterator[SyncerWorld]:
    """Run a tenant for one test, which may break its store. `controllers` are additional ones."""
    plane = tenant_plane(folder, folder.name, api_args=api_args, controllers=controllers)
    await begin_tenant(plane)
    try:
        async with (
            Client(super_plane.endpoint) as super_client,
            Client(plane.endpoint) as tenant_client,
        ):
            tenant = await declare(super_client, plane)
            yield SyncerWorld(
                super_plane=super_plane,
                tenant_plane=plane,
                tenant=tenant,
                super_client=super_client,
                tenant_client=tenant_client,
                others=await names_of_others(super_client, tenant_client, tenant),
            )
            with contextlib.suppress(NotFound):  # a later syncer would try to engage it
                await super_client.delete(VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace)
    finally:
        await plane.stop()
