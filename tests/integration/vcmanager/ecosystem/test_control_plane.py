"""The control plane provider of Cluster API, on its definition of the kind Cluster.

The tests do what Cluster API's controller of Clusters does: it sets the owner, and reads the fields
of the contract.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.conditions import find_condition
from tenancy.rbac import RbacRule
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.ecosystem.conftest import CLUSTERS, head
from tests.support import grants
from tests.support.names import fresh_name
from vcmanager.reconcilers.integrations.control_plane import reconcile_control_plane
from vcmanager.runtime import keys
from vcmanager.runtime.context import ReconcileContext

KIND = resources.VIRTUAL_CLUSTER_CONTROL_PLANES
PAUSE = {"cluster.x-k8s.io/paused": "true"}


class ClusterApiStage:
    """A Cluster with its control plane, and the steps of Cluster API and of vc-manager."""

    def __init__(self, stage: ManagerStage, means: ReconcileContext) -> None:
        self.stage, self.means, self.name = stage, means, fresh_name("capi")

    @property
    def control_plane_name(self) -> str:
        """Another name than that of the Cluster."""
        return f"{self.name}-cp"

    async def declare(self, **spec: Any) -> None:
        """Create the Cluster and its control plane, as a user does."""
        reference = {
            "apiGroup": KIND.group,
            "kind": KIND.kind,
            "name": self.control_plane_name,
        }
        await self.stage.admin.create(
            CLUSTERS,
            {
                **head(CLUSTERS),
                "metadata": {"name": self.name, "namespace": "default"},
                "spec": {"controlPlaneRef": reference},
            },
        )
        body = {
            **head(KIND),
            "metadata": {"name": self.control_plane_name, "namespace": "default"},
            "spec": {"version": "v1.36.4", **spec},
        }
        await self.stage.admin.create(KIND, body)

    async def adopt(self) -> None:
        """Set the owner, as Cluster API does."""
        cluster = await self.stage.admin.get(CLUSTERS, self.name, namespace="default")
        owner = {
            "apiVersion": CLUSTERS.api_version,
            "kind": "Cluster",
            "name": self.name,
            "uid": cluster["metadata"]["uid"],
        }
        await self.patch({"metadata": {"ownerReferences": [owner]}})

    async def patch(self, patch: Object) -> None:
        """Change the control plane."""
        await self.stage.admin.patch(KIND, self.control_plane_name, patch, namespace="default")

    async def reconcile(self) -> Object:
        """Reconcile the control plane, and return it."""
        key = keys.build_control_plane_key("default", self.control_plane_name)
        await reconcile_control_plane(self.means, key)
        return await self.fetch()

    async def fetch(self) -> Object:
        """Return the control plane."""
        return await self.stage.admin.get(KIND, self.control_plane_name, namespace="default")

    async def fetch_tenant(self) -> Object:
        """Return the VirtualCluster."""
        kind = resources.VIRTUAL_CLUSTERS
        return await self.stage.admin.get(kind, self.name, namespace="default")


def condition(body: Object, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found = find_condition(body["status"]["conditions"], kind)
    assert found is not None, body["status"]
    return found["status"], found["reason"]


@pytest.fixture
async def capi(stage: ManagerStage, means: ReconcileContext) -> AsyncIterator[ClusterApiStage]:
    """A namespace that allows kubeconfig Secrets."""
    labels = {"metadata": {"labels": {wellknown.KUBECONFIG_SECRETS: "enabled"}}}
    await stage.admin.patch(resources.NAMESPACES, "default", labels)
    yield ClusterApiStage(stage, means)
    labels["metadata"]["labels"][wellknown.KUBECONFIG_SECRETS] = None  # type: ignore[assignment]
    await stage.admin.patch(resources.NAMESPACES, "default", labels)


async def test_a_cluster_from_its_owner_to_its_end(capi: ClusterApiStage):
    stage = capi.stage
    await capi.declare()
    body = await capi.reconcile()
    # Without its owner, nothing happens. kstatus reads the default as work in progress.
    assert body["status"] == {"observedGeneration": -1}
    with pytest.raises(errors.NotFound):
        await capi.fetch_tenant()

    await capi.adopt()
    body = await capi.reconcile()
    assert wellknown.FINALIZER in body["metadata"]["finalizers"]
    tenant = await capi.fetch_tenant()
    assert tenant["spec"]["clusterVersionName"] == "v1.36"
    assert tenant["metadata"]["ownerReferences"][0]["uid"] == body["metadata"]["uid"]
    status = body["status"]
    assert status["externalManagedControlPlane"] is True
    assert status["initialization"] == {"controlPlaneInitialized": False}
    assert condition(body, "Available") == ("False", "Pending")

    await stage.bring_up(tenant)
    body = await capi.reconcile()
    tenant = await capi.fetch_tenant()
    host, _, port = tenant["status"]["endpoint"].removeprefix("https://").rpartition(":")
    assert body["spec"]["controlPlaneEndpoint"] == {"host": host, "port": int(port)}
    status = body["status"]
    assert status["initialization"] == {"controlPlaneInitialized": True}
    assert status["version"].startswith("v1.36")
    assert status["versions"] == [{"version": status["version"]}]
    assert status["observedGeneration"] == body["metadata"]["generation"]
    assert condition(body, "Available")[0] == condition(body, "Ready")[0] == "True"
    assert condition(body, "RollingOut")[0] == condition(body, "Paused")[0] == "False"

    secret = await stage.admin.get(
        resources.SECRETS, f"{capi.name}-kubeconfig", namespace="default"
    )
    assert secret["type"] == "cluster.x-k8s.io/secret"
    assert secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == capi.name
    assert b"client-certificate-data" in base64.b64decode(secret["data"]["value"])

    # A reconcile without a change writes nothing.
    version = body["metadata"]["resourceVersion"]
    assert (await capi.reconcile())["metadata"]["resourceVersion"] == version

    await stage.admin.delete(KIND, capi.control_plane_name, namespace="default")
    body = await capi.reconcile()
    assert "deletionTimestamp" in (await capi.fetch_tenant())["metadata"]
    assert wellknown.FINALIZER in body["metadata"]["finalizers"]
    await stage.tear_down(tenant)
    with pytest.raises(errors.NotFound):
        await capi.reconcile()


@pytest.mark.parametrize("where", ["Cluster", "control plane"])
async def test_a_paused_control_plane_changes_nothing(capi: ClusterApiStage, where: str):
    await capi.declare()
    await capi.adopt()
    is_cluster = where == "Cluster"
    admin = capi.stage.admin
    if is_cluster:
        await admin.patch(CLUSTERS, capi.name, {"spec": {"paused": True}}, namespace="default")
    else:
        await capi.patch({"metadata": {"annotations": PAUSE}})
    body = await capi.reconcile()
    assert condition(body, "Paused") == ("True", "Paused")
    with pytest.raises(errors.NotFound):
        await capi.fetch_tenant()
    if is_cluster:
        await admin.patch(CLUSTERS, capi.name, {"spec": {"paused": None}}, namespace="default")
    else:
        annotations = dict.fromkeys(PAUSE)
        await capi.patch({"metadata": {"annotations": annotations}})
    body = await capi.reconcile()
    assert condition(body, "Paused") == ("False", "NotPaused")
    await capi.fetch_tenant()


async def test_the_spec_reaches_the_tenant_and_leaves_it(capi: ClusterApiStage):
    endpoint = {"hostname": "shop.example.com", "port": 8443}
    await capi.declare(endpoint=endpoint)
    await capi.adopt()
    await capi.reconcile()
    assert (await capi.fetch_tenant())["spec"]["endpoint"] == endpoint
    await capi.patch({"spec": {"endpoint": None}})
    await capi.reconcile()
    assert "endpoint" not in (await capi.fetch_tenant())["spec"]


async def test_a_foreign_tenant_of_the_name_stays(capi: ClusterApiStage):
    foreign = await capi.stage.declare(capi.name)
    await capi.declare()
    await capi.adopt()
    body = await capi.reconcile()
    assert condition(body, "Available") == ("False", "VirtualClusterTaken")
    assert condition(body, "Stalled") == ("True", "VirtualClusterTaken")
    assert (await capi.fetch_tenant())["metadata"]["uid"] == foreign["metadata"]["uid"]
    await capi.stage.admin.delete(KIND, capi.control_plane_name, namespace="default")
    with pytest.raises(errors.NotFound):
        await capi.reconcile()
    assert "deletionTimestamp" not in (await capi.fetch_tenant())["metadata"]


async def test_a_refused_tenant_is_reported(capi: ClusterApiStage):
    await capi.declare(endpoint={"hostname": "UPPER.example.com"})
    await capi.adopt()
    body = await capi.reconcile()
    assert condition(body, "Stalled") == ("True", "VirtualClusterRefused")
    found = find_condition(body["status"]["conditions"], "Available")
    assert "lower-case DNS name" in (found or {})["message"]


async def test_a_protected_tenant_is_not_deleted(capi: ClusterApiStage):
    await capi.declare()
    await capi.adopt()
    await capi.reconcile()
    labels = {"metadata": {"labels": {wellknown.DELETION_PROTECTION: "enabled"}}}
    kind = resources.VIRTUAL_CLUSTERS
    await capi.stage.admin.patch(kind, capi.name, labels, namespace="default")
    await capi.stage.admin.delete(KIND, capi.control_plane_name, namespace="default")
    body = await capi.reconcile()
    assert condition(body, "Stalled") == ("True", "DeletionRefused")
    assert "deletionTimestamp" not in (await capi.fetch_tenant())["metadata"]


async def test_a_user_needs_the_verb_use_on_what_the_control_plane_names(capi: ClusterApiStage):
    user = fresh_name("user")
    row = RbacRule(KIND.group, (KIND.plural,), ("create", "patch", "get"), "The test needs it.")
    await grants.grant(capi.stage.admin, [row], user)
    body = {
        **head(KIND),
        "metadata": {"name": capi.control_plane_name, "namespace": "default"},
        "spec": {"version": "v1.36.4"},
    }
    use = RbacRule(
        "tenancy.x-k8s.io", ("clusterversions",), ("use",), "The test needs it.", names=("v1.36",)
    )
    async with Client(capi.stage.plane.endpoint_for(user)) as client:
        with pytest.raises(errors.Forbidden, match=r"ClusterVersion 'v1\.36'"):
            await client.create(KIND, body)
        await grants.grant(capi.stage.admin, [row, use], user)
        body["spec"]["policyRef"] = {"name": "trusted"}  # type: ignore[index]
        with pytest.raises(errors.Forbidden, match="TenantPolicy 'trusted'"):
            await client.create(KIND, body)
        del body["spec"]["policyRef"]  # type: ignore[attr-defined]
        await client.create(KIND, body)
        with pytest.raises(errors.Forbidden, match=r"ClusterVersion 'v1\.37'"):
            await client.patch(
                KIND, capi.control_plane_name, {"spec": {"version": "1.37.0"}}, namespace="default"
            )
        name = capi.control_plane_name
        chosen = {"spec": {"policyRef": {"name": "restricted"}}}
        await capi.stage.admin.patch(KIND, name, chosen, namespace="default")
        with pytest.raises(errors.Forbidden, match="TenantPolicy 'baseline'"):
            await client.patch(KIND, name, {"spec": {"policyRef": None}}, namespace="default")


async def test_the_account_may_change_no_spec_of_a_control_plane(capi: ClusterApiStage):
    await capi.declare()
    with pytest.raises(errors.Forbidden, match="few names elsewhere"):
        await capi.stage.manager.patch(
            KIND, capi.control_plane_name, {"spec": {"version": "v1.37.0"}}, namespace="default"
        )
    body = {
        **head(resources.VIRTUAL_CLUSTERS),
        "metadata": {"name": fresh_name("free"), "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    }
    with pytest.raises(errors.Forbidden, match="few names elsewhere"):
        await capi.stage.manager.create(resources.VIRTUAL_CLUSTERS, body)
