"""An API server for each module, because its tests install, upgrade and remove the product."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy import names, resources
from tenancy.ownership import Tenant
from tests.chart.upgrade.product import (
    InstalledProduct,
    LiveTenant,
    ProductVersion,
    extract_release,
)
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.names import fresh_name

CONTROLLERS = (
    "serviceaccount-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "root-ca-certificate-publisher-controller",
)

Declare = Callable[[], Awaitable[LiveTenant]]


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> ProductVersion:
    """The last release."""
    return extract_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A super cluster without nodes, and without the product."""
    folder = tmp_path_factory.mktemp("upgrade")
    made = LocalControlPlane(folder, name="super", audit=True, controllers=CONTROLLERS)
    with serving(made):
        yield made


@pytest.fixture
async def product(plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[InstalledProduct]:
    kubeconfig = tmp_path / "super.kubeconfig"
    kubeconfig.write_bytes(plane.kubeconfig())
    kubeconfig.chmod(0o600)
    async with Client(plane.endpoint) as admin:
        yield InstalledProduct(plane=plane, admin=admin, kubeconfig=kubeconfig, folder=tmp_path)


@pytest.fixture
def declare(product: InstalledProduct) -> Declare:
    """Create a VirtualCluster in the namespace default."""

    async def create() -> LiveTenant:
        body = {
            "apiVersion": resources.VIRTUAL_CLUSTERS.api_version,
            "kind": resources.VIRTUAL_CLUSTERS.kind,
            "metadata": {"name": fresh_name("vc"), "namespace": "default"},
            "spec": {"clusterVersionName": "v1.36"},
        }
        made = (await product.admin.create(resources.VIRTUAL_CLUSTERS, body))["metadata"]
        root = names.build_root_namespace("default", made["name"], made["uid"])
        tenant = Tenant(name=made["name"], namespace="default", uid=made["uid"], root=root)
        return LiveTenant(product=product, tenant=tenant)

    return create
