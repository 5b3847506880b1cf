"""How-to pages of `docs` for the platform administrator, run as they stand, on a real node.

Each page needs a driver, a gateway or a network of the nodes, which its preparation starts. The
tenant of the pages is `shop` in the namespace `default`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support.kubectl import until
from tools.testbed import chart
from tools.testbed.artifacts.registry import publish
from tools.testbed.cluster.handle import REPOSITORY
from tools.testbed.drivers import devices
from tools.testbed.networks import gateway, node_networks
from tools.testbed.progress import StepPrinter
from tools.testbed.storage import snapshots
from tools.walks import run

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

TENANT = "shop"


@pytest.fixture(scope="module")
def shop(make_tenant: Callable[..., TenantAdmin]) -> TenantAdmin:
    return make_tenant(TENANT)


@contextmanager
def reader(
    super_cluster: SuperClusterAdmin, tenant: TenantAdmin, *, policy: str, value: str = ""
) -> Iterator[None]:
    """Bind the tenant to no policy at the end of a page, and switch a value of the chart off."""
    try:
        yield
    finally:
        none = json.dumps({"spec": {"policyRef": None}})
        kubectl = super_cluster.kubectl
        kubectl.run("patch", "virtualcluster", tenant.name, "--type=merge", "-p", none)
        kubectl.run("delete", "tenantpolicy", policy, "--ignore-not-found")
        if value:
            off = (*chart.KUBELET_UPSTREAM, f"{value}=false")
            chart.install(super_cluster.cluster, StepPrinter(), values=off)


def walk(page: str, super_cluster: SuperClusterAdmin, tenant: TenantAdmin, folder: Path) -> None:
    """Run a page in a folder with the chart and the kubeconfig of the tenant."""
    (folder / "charts").symlink_to(REPOSITORY / "charts")
    shutil.copy(tenant.kubectl.kubeconfig, folder / f"{TENANT}.kubeconfig")
    environment = {
        **os.environ,
        **super_cluster.cluster.environment(),
        "PYTHONPATH": str(REPOSITORY),
    }
    run.walk(REPOSITORY / f"docs/{page}.md", folder, environment)


def delete_all(tenant: TenantAdmin, kinds: str) -> None:
    """Delete the objects of a page in the namespace `default` of the tenant."""
    tenant.kubectl.run("delete", kinds, "--all", timeout=180)


@pytest.mark.thorough
def test_the_page_of_storage(super_cluster: SuperClusterAdmin, shop: TenantAdmin, tmp_path: Path):
    """The provisioner is the one of the testbed."""
    with reader(super_cluster, shop, policy="team-a-storage"):
        walk("storage", super_cluster, shop, tmp_path)
        delete_all(shop, "pods,persistentvolumeclaims")
    super_cluster.kubectl.run("delete", "storageclass", "fast")


def test_the_page_of_networks(super_cluster: SuperClusterAdmin, shop: TenantAdmin, tmp_path: Path):
    """A stand-in for Multus runs the real plugins."""
    node_networks.enable(super_cluster.cluster)
    with reader(super_cluster, shop, policy="with-networks", value="networkAttachments.enabled"):
        walk("networks", super_cluster, shop, tmp_path)
        delete_all(shop, "pods,network-attachment-definitions")


@pytest.mark.thorough
def test_the_page_of_devices(super_cluster: SuperClusterAdmin, shop: TenantAdmin, tmp_path: Path):
    """The driver of the testbed has devices that exist only by name."""
    node, kubectl = super_cluster.cluster.topology.nodes[0], super_cluster.kubectl
    devices.start(super_cluster.cluster, node, 2)
    selector = {"cel": {"expression": f"device.driver == '{devices.DRIVER}'"}}
    kubectl.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.example.com"},
            "spec": {"selectors": [selector]},
        }
    )
    until(lambda: kubectl.items("resourceslices"), "a ResourceSlice of the driver")
    value = "syncRules.dynamicResources.enabled"
    with reader(super_cluster, shop, policy="with-devices", value=value):
        walk("dynamic-resources", super_cluster, shop, tmp_path)
        delete_all(shop, "pods,resourceclaimtemplates")
    devices.stop(super_cluster.cluster, node)
    kubectl.run("delete", "deviceclass", "gpu.example.com")
    kubectl.run("delete", "resourceslices", "--all")


@pytest.mark.thorough
def test_the_page_of_snapshots(super_cluster: SuperClusterAdmin, shop: TenantAdmin, tmp_path: Path):
    """The snapshot controller is real, and the CSI driver is the one of the testbed."""
    kubectl = super_cluster.kubectl
    snapshots.start(super_cluster.cluster)
    kubectl.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "csi"},
            "provisioner": snapshots.DRIVER,
        },
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {
                "name": "tenants",
                "labels": {"tenancy.x-k8s.io/super.public": "true"},
            },
            "driver": snapshots.DRIVER,
            "deletionPolicy": "Delete",
        },
    )
    value = "syncRules.volumeSnapshots.enabled"
    with reader(super_cluster, shop, policy="with-snapshots", value=value):
        walk("volume-snapshots", super_cluster, shop, tmp_path)
        delete_all(shop, "pods,volumesnapshots,persistentvolumeclaims")
    kubectl.run("delete", "storageclass/csi", "volumesnapshotclass/tenants")
    snapshots.stop(super_cluster.cluster)


@pytest.fixture(scope="module")
def traefik(super_cluster: SuperClusterAdmin) -> Iterator[None]:
    """Traefik for Gateways and Ingresses, in a namespace of its own."""
    kubectl = super_cluster.kubectl
    publish(gateway.build(StepPrinter()), super_cluster.cluster.places.registry)
    for file in gateway.list_definitions():
        kubectl.run("apply", "--server-side", "-f", str(file))
    kubectl.run("create", "namespace", "traefik")
    gateway_class = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "traefik"},
        "spec": {"controllerName": gateway.CONTROLLER},
    }
    ingress_class = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "traefik"},
        "spec": {"controller": gateway.INGRESS_CONTROLLER},
    }
    kubectl.apply(*gateway.build_objects("traefik"), gateway_class, ingress_class)
    ports = ("--port=80", f"--target-port={gateway.PORT}")
    kubectl.run("-n", "traefik", "expose", "deployment/traefik", *ports)
    kubectl.run("-n", "traefik", "rollout", "status", "deployment/traefik", "--timeout=120s")
    yield
    kubectl.run("delete", "namespace", "traefik", timeout=120)
    kubectl.run("delete", "clusterrole,clusterrolebinding", "traefik-gateway")
    kubectl.run("delete", "ingressclass", "traefik")
    for file in gateway.list_definitions():
        kubectl.run("delete", "-f", str(file), timeout=120)


@pytest.mark.thorough
@pytest.mark.usefixtures("traefik")
def test_the_page_of_routes(super_cluster: SuperClusterAdmin, shop: TenantAdmin, tmp_path: Path):
    with reader(super_cluster, shop, policy="team-a", value="syncRules.gatewayApi.enabled"):
        walk("gateway-api", super_cluster, shop, tmp_path)
        shop.kubectl.run("delete", "namespace", "web", "gateways", timeout=120)
    super_cluster.kubectl.run("delete", "namespace", "gateways", timeout=120)


@pytest.mark.thorough
@pytest.mark.usefixtures("traefik")
def test_the_page_of_ingresses(super_cluster: SuperClusterAdmin, shop: TenantAdmin, tmp_path: Path):
    with reader(super_cluster, shop, policy="team-a-ingress"):
        walk("ingress", super_cluster, shop, tmp_path)
        shop.kubectl.run("delete", "namespace", "web", timeout=120)
