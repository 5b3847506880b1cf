"""The ClusterProfile of a tenant, on the definition of SIG Multicluster."""

from __future__ import annotations

import base64
import dataclasses

import pytest
import yaml

from kubeio import Object, errors
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.ecosystem.conftest import MANAGER, head
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.plan.integrations import cluster_profiles
from vcmanager.reconcilers.integrations.cluster_profile import reconcile_cluster_profile
from vcmanager.runtime import keys
from vcmanager.runtime.context import ReconcileContext


async def publish(means: ReconcileContext, cluster: Object) -> None:
    metadata = cluster["metadata"]
    key = keys.build_profile_key(metadata["namespace"], metadata["name"])
    await reconcile_cluster_profile(means, key)


async def fetch(stage: ManagerStage, cluster: Object) -> Object:
    name = cluster["metadata"]["name"]
    return await stage.admin.get(resources.CLUSTER_PROFILES, name, namespace="default")


async def test_a_profile_lives_and_ends_with_the_tenant(
    stage: ManagerStage, means: ReconcileContext
):
    cluster = await stage.declare(fresh_name("fleet"))
    await publish(means, cluster)
    profile = await fetch(stage, cluster)
    assert profile["metadata"]["labels"]["x-k8s.io/cluster-manager"] == MANAGER
    assert profile["spec"]["clusterManager"]["name"] == MANAGER
    (condition,) = profile["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("ControlPlaneHealthy", "Unknown")
    assert "accessProviders" not in profile["status"]

    await stage.bring_up(cluster)
    await publish(means, cluster)
    profile = await fetch(stage, cluster)
    (condition,) = profile["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("ControlPlaneHealthy", "True")
    version = (await stage.fresh(cluster))["status"]["version"]
    assert profile["status"]["version"] == {"kubernetes": version}
    (provider,) = profile["status"]["accessProviders"]
    admin = await stage.secret(cluster, "admin-kubeconfig")
    document = yaml.safe_load(base64.b64decode(admin["data"]["admin-kubeconfig"]))
    known = document["clusters"][0]["cluster"]
    found = provider["cluster"]
    assert (found["server"], found["certificate-authority-data"]) == (
        known["server"],
        known["certificate-authority-data"],
    )
    # The plugin reads this Secret. No credential is in the profile.
    (extension,) = found["extensions"]
    named = extension["extension"]
    assert (named["namespace"], named["name"]) == (stage.root(cluster), "admin-kubeconfig")
    assert named["key"] in admin["data"]
    assert "client-key-data" not in yaml.safe_dump(profile)

    # A reconcile without a change writes nothing.
    before = profile["metadata"]["resourceVersion"]
    await publish(means, cluster)
    assert (await fetch(stage, cluster))["metadata"]["resourceVersion"] == before

    # The name of the cluster manager cannot change, so the profile is created again.
    settings = dataclasses.replace(means.settings, cluster_manager="fleet-2")
    await publish(dataclasses.replace(means, settings=settings), cluster)
    assert (await fetch(stage, cluster))["spec"]["clusterManager"]["name"] == "fleet-2"

    await stage.tear_down(cluster)
    await eventually(lambda: _is_absent(stage, cluster), within=60)


async def _is_absent(stage: ManagerStage, cluster: Object) -> bool:
    try:
        await fetch(stage, cluster)
    except errors.NotFound:
        return True
    return False


async def test_a_foreign_profile_stays(stage: ManagerStage, means: ReconcileContext):
    cluster = await stage.declare(fresh_name("taken"))
    metadata = {"name": cluster["metadata"]["name"], "namespace": "default"}
    spec = {"clusterManager": {"name": "another"}}
    await stage.admin.create(
        resources.CLUSTER_PROFILES,
        {**head(resources.CLUSTER_PROFILES), "metadata": metadata, "spec": spec},
    )
    await publish(means, cluster)
    assert (await fetch(stage, cluster))["spec"] == spec
    await stage.admin.delete(resources.VIRTUAL_CLUSTERS, metadata["name"], namespace="default")


async def test_without_the_value_nothing_is_written(stage: ManagerStage):
    cluster = await stage.declare(fresh_name("off"))
    await publish(stage.means, cluster)
    with pytest.raises(errors.NotFound):
        await fetch(stage, cluster)
    await stage.admin.delete(
        resources.VIRTUAL_CLUSTERS, cluster["metadata"]["name"], namespace="default"
    )


async def test_the_account_may_not_write_a_profile_of_another_owner(stage: ManagerStage):
    body = {
        **head(resources.CLUSTER_PROFILES),
        "metadata": {"name": fresh_name("free"), "namespace": "default"},
        "spec": {"clusterManager": {"name": MANAGER}},
    }
    with pytest.raises(errors.Forbidden, match="few names elsewhere"):
        await stage.manager.create(resources.CLUSTER_PROFILES, body)
    assert cluster_profiles.get_cluster_manager(body) == MANAGER
