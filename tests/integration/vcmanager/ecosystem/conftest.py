"""A super cluster with the kinds of Cluster API and of the cluster inventory, and our policies."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator

import pytest

from kubeio import errors
from kubeio.api.client import Client
from tenancy import resources
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tests.integration.vcmanager.conftest import NAMESPACE, USER, ManagerStage, installed
from tests.support import ecosystem
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.helm import render
from vcmanager.runtime.context import ReconcileContext

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster")
SWITCHES = (
    "integrations.clusterProfiles.enabled=true",
    "integrations.clusterAPI.enabled=true",
    "image.registry=registry.example",
)
MANAGER = "fleet-1"


def head(resource: Resource) -> dict[str, str]:
    """Return the first fields of an object."""
    return {"apiVersion": resource.api_version, "kind": resource.kind}


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """The super cluster's API, with both integrations switched on."""
    with installed(tmp_path_factory.mktemp("ecosystem"), *SWITCHES) as made:
        asyncio.run(_install_integrations(made))
        yield made


async def _install_integrations(plane: LocalControlPlane) -> None:
    async with Client(plane.endpoint) as client:
        for name in (ecosystem.CLUSTERS, ecosystem.CLUSTER_PROFILES):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, ecosystem.load_definition(name))
        settings = [word for each in SWITCHES for word in ("--set", each)]
        for file in ("cluster-api", "cluster-policy", "deletion-policy"):
            account = f"system:serviceaccount:{NAMESPACE}:vc-manager"
            for body in render("--show-only", f"templates/{file}.yaml", *settings):
                kind = body["kind"]
                plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
                group, _, version = body["apiVersion"].partition("/")
                resource = Resource(group, version, plural, kind, namespaced=False)
                await client.create(resource, json.loads(json.dumps(body).replace(account, USER)))
        kinds = (CLUSTERS, resources.CLUSTER_PROFILES, resources.VIRTUAL_CLUSTER_CONTROL_PLANES)
        for resource in kinds:
            await eventually(lambda resource=resource: client.list(resource))
        await _wait_for_policies(client)


async def _wait_for_policies(client: Client) -> None:
    """Wait until the newest policy is in force: it refuses a finalizer that is removed by hand."""
    body = {
        **head(resources.VIRTUAL_CLUSTER_CONTROL_PLANES),
        "metadata": {
            "name": "probe",
            "namespace": "default",
            "finalizers": ["tenancy.x-k8s.io/vc-manager"],
        },
        "spec": {"version": "v1.36.4"},
    }
    kind = resources.VIRTUAL_CLUSTER_CONTROL_PLANES
    await client.create(kind, body)
    await eventually(lambda: _is_refused(client))
    await client.delete(kind, "probe", namespace="default")


async def _is_refused(client: Client) -> bool:
    try:
        await client.patch(
            resources.VIRTUAL_CLUSTER_CONTROL_PLANES,
            "probe",
            {"metadata": {"finalizers": []}},
            namespace="default",
            dry_run=True,
        )
    except errors.Forbidden:
        return True
    return False


@pytest.fixture
def means(stage: ManagerStage) -> ReconcileContext:
    """The means of a manager with both integrations."""
    settings = dataclasses.replace(stage.means.settings, cluster_manager=MANAGER, cluster_api=True)
    return dataclasses.replace(stage.means, settings=settings)
