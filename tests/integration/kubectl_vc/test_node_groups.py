"""`kubectl vc target doctor` and the MachineDeployments of a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kubeio.api.client import Client
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, Resource
from tests.integration.kubectl_vc.conftest import UserTerminal
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.eventually import eventually

GROUP, VERSION = "cluster.x-k8s.io", "v1beta2"
MACHINE_DEPLOYMENTS = Resource(GROUP, VERSION, "machinedeployments", "MachineDeployment")
SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
GOOD = {
    f"{SIZE}-min-size": "0",
    f"{SIZE}-max-size": "3",
    f"{CAPACITY}/cpu": "4",
    f"{CAPACITY}/memory": "16Gi",
}
ROLE = "node-role.kubernetes.io/vlan"


def definition() -> dict[str, Any]:
    """Return a CRD with the names of Cluster API's, for any content."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "machinedeployments", "kind": "MachineDeployment"}
    version = {"name": VERSION, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"machinedeployments.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def machine_deployment(annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "MachineDeployment",
        "metadata": {"name": "md-1", "annotations": annotations},
        "spec": {"replicas": 0, "template": {"metadata": {"labels": {ROLE: "7"}}}},
    }


def program(image: str) -> dict[str, Any]:
    name, labels = image.partition(":")[0], {"app": "x"}
    containers = [{"name": "main", "image": f"registry.example/{image}"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


@pytest.fixture(scope="module")
def management_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A management cluster of Cluster API, without its programs."""
    plane = LocalControlPlane(tmp_path_factory.mktemp("management"), name="management")
    with serving(plane):
        yield plane


@pytest.fixture
async def management(
    management_plane: LocalControlPlane, desk: UserTerminal
) -> AsyncIterator[Client]:
    (desk.folder / "management").write_bytes(management_plane.kubeconfig())
    (desk.folder / "stranger").write_bytes(management_plane.kubeconfig("stranger", group=""))
    async with Client(management_plane.endpoint) as client:
        yield client


async def test_the_doctor_names_the_faults_of_a_node_group(desk: UserTerminal, management: Client):
    async def check(kubeconfig: str = "management"):
        return await desk.run("target", "doctor", "--target-kubeconfig", kubeconfig)

    done = await check()
    assert (done.code, "serves no MachineDeployments" in done.out) == (0, True)
    await management.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    bad = {**GOOD, f"{CAPACITY}/memory": "16GB", f"{CAPACITY}/labels": f"{ROLE}=7"}
    await eventually(
        lambda: management.create(MACHINE_DEPLOYMENTS, machine_deployment(bad), namespace="default")
    )
    for image in ("cluster-autoscaler:v1.26.2", "cluster-api-controller:v1.3.3"):
        await management.create(DEPLOYMENTS, program(image), namespace="default")
    done = await check()
    assert done.code == 1
    for words in (
        f"MachineDeployment default/md-1: {CAPACITY}/memory is '16GB', which is no quantity",
        "cluster-autoscaler 1.26.2 ignores the labels",
        "Cluster API 1.3.3 does not copy labels to nodes",
    ):
        assert words in done.out
    assert (await check("stranger")).code == 0
    assert "may not be read with this kubeconfig" in (await check("stranger")).out
    good = {"metadata": {"annotations": {f"{CAPACITY}/memory": "16G"}}}
    await management.patch(MACHINE_DEPLOYMENTS, "md-1", good, namespace="default")
    for name, image in (
        ("cluster-autoscaler", "cluster-autoscaler:v1.27.1"),
        ("cluster-api-controller", "cluster-api-controller:v1.4.2"),
    ):
        await management.delete(DEPLOYMENTS, name, namespace="default")
        await management.create(DEPLOYMENTS, program(image), namespace="default")
    done = await check()
    assert (done.code, "scales from 0 to 3 nodes" in done.out) == (0, True)
