"""The end of a tenant: everything of it goes, nothing of others does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kubeio import errors
from tenancy import ownership, resources, wellknown
from tenancy.ownership import Tenant
from tests.integration.vcmanager.conftest import NAMESPACE, ManagerStage
from vcmanager.reconcilers import finalizers
from vcmanager.runtime import keys
from vcmanager.runtime.keys import ReconcileKey


def tenant_of(stage: ManagerStage, cluster) -> Tenant:
    metadata = cluster["metadata"]
    return Tenant(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        root=stage.root(cluster),
    )


async def super_namespace(stage: ManagerStage, cluster, name: str, **changes) -> str:
    """Make a namespace as the syncer does, with parts of the record changed."""
    tenant = tenant_of(stage, cluster)
    full = f"{tenant.root}-{name}"
    metadata = {
        "name": full,
        "labels": ownership.build_owner_labels(tenant, name),
        "annotations": ownership.build_owner_annotations(tenant, name, "uid"),
        **changes,
    }
    await stage.admin.create(resources.NAMESPACES, {"metadata": metadata})
    return full


async def is_there(stage: ManagerStage, name: str) -> bool:
    try:
        await stage.admin.get(resources.NAMESPACES, name)
    except errors.NotFound:
        return False
    return True


async def say_synced(stage: ManagerStage, cluster, status: str, reason: str) -> None:
    """Say what the syncer says."""
    condition = {
        "type": wellknown.SYNCED,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": cluster["metadata"]["name"], "namespace": "default"},
        "status": {"conditions": [condition]},
    }
    await stage.admin.apply(
        resources.VIRTUAL_CLUSTERS, body, subresource="status", field_manager=wellknown.SYNCER
    )


async def hold_lease(stage: ManagerStage, holder: str) -> None:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": wellknown.SYNCER, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 3600,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    await stage.admin.apply(resources.LEASES, body, field_manager="test")


@contextlib.asynccontextmanager
async def leased(stage: ManagerStage) -> AsyncIterator[None]:
    """Have a syncer in the world, and no one after that: other tests' tenants would wait for it."""
    await hold_lease(stage, "somebody")
    try:
        yield
    finally:
        await hold_lease(stage, "")


async def test_all_namespaces_of_a_tenant_go_and_the_rest_stays(stage: ManagerStage):
    cluster, other = await stage.declare(), await stage.declare()
    for each in (cluster, other):
        await stage.work(each)
    mine = [await super_namespace(stage, cluster, name) for name in ("default", "kube-system")]
    kept = [
        await super_namespace(stage, other, "default"),
        await super_namespace(stage, cluster, "label-alone", annotations={}),
        await super_namespace(stage, cluster, "record-alone", labels={}),
    ]
    await stage.tear_down(cluster)
    assert not any([await is_there(stage, name) for name in (*mine, stage.root(cluster))])
    assert all([await is_there(stage, name) for name in (*kept, stage.root(other))])
    assert cluster["metadata"]["uid"] in stage.tenants.dropped


async def test_it_never_needs_the_tenants_api(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    stage.tenants.client = stage.nowhere
    await stage.tear_down(cluster)
    assert not await is_there(stage, stage.root(cluster))


async def test_a_tenant_that_is_half_made_goes_as_well(stage: ManagerStage):
    cluster = await stage.declare(clusterVersionName="nope")
    await stage.work(cluster)
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"metadata": {"finalizers": [wellknown.FINALIZER]}},
        namespace="default",
    )
    await stage.tear_down(cluster)


async def test_it_waits_for_the_syncer_to_let_go(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    await say_synced(stage, cluster, "True", "Synced")
    async with leased(stage):
        await stage.admin.delete(
            resources.VIRTUAL_CLUSTERS, cluster["metadata"]["name"], namespace="default"
        )
        await stage.work(cluster, times=3)
        root = await stage.admin.get(resources.NAMESPACES, stage.root(cluster))
        assert "deletionTimestamp" not in root["metadata"]
        ready = await stage.condition(cluster, "Ready")
        assert ready is not None
        assert (ready["reason"], ready["message"]) == (
            "Deleting",
            "the syncer has not disconnected from the tenant yet",
        )
        await say_synced(stage, cluster, "False", "Disengaged")
        await finish(stage, cluster)


async def test_it_waits_for_a_syncer_that_never_reported_it(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    late = await super_namespace(stage, cluster, "late")
    async with leased(stage):
        await stage.admin.delete(
            resources.VIRTUAL_CLUSTERS, cluster["metadata"]["name"], namespace="default"
        )
        await stage.work(cluster, times=3)
        kept = await stage.admin.get(resources.NAMESPACES, late)
        assert "deletionTimestamp" not in kept["metadata"]
        assert await is_there(stage, stage.root(cluster))
        await say_synced(stage, cluster, "False", "Disengaged")
        await finish(stage, cluster)
    assert not await is_there(stage, late)


async def test_it_does_not_wait_for_a_syncer_that_is_not_there(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    await say_synced(stage, cluster, "True", "Synced")
    await hold_lease(stage, "")
    await stage.tear_down(cluster)


async def finish(stage: ManagerStage, cluster) -> None:
    for _ in range(400):
        await stage.work(cluster)
        await stage.end_pods(cluster)
        try:
            await stage.fresh(cluster)
        except errors.NotFound:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(await stage.fresh(cluster))


async def test_what_holds_a_namespace_is_named(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    held = await super_namespace(stage, cluster, "held")
    body = {"metadata": {"name": "x", "namespace": held, "finalizers": ["example.org/stuck"]}}
    await stage.admin.create(resources.CONFIG_MAPS, body)
    await stage.admin.delete(
        resources.VIRTUAL_CLUSTERS, cluster["metadata"]["name"], namespace="default"
    )
    message = ""
    for _ in range(200):
        await stage.work(cluster)
        ready = await stage.condition(cluster, "Ready")
        message = ready["message"] if ready else ""
        if "example.org/stuck" in message:
            break
        await asyncio.sleep(0.1)
    assert held in message
    assert "example.org/stuck" in message
    assert await is_there(stage, stage.root(cluster)), "the root goes after the others"
    await stage.admin.patch(
        resources.CONFIG_MAPS, "x", {"metadata": {"finalizers": None}}, namespace=held
    )
    await finish(stage, cluster)


async def test_volumes_that_are_being_removed_are_waited_for_and_kept_ones_are_not(
    stage: ManagerStage,
):
    cluster = await stage.declare()
    await stage.work(cluster)
    name = cluster["metadata"]["name"]

    async def volume(policy: str) -> str:
        full = f"{name}-{policy.lower()}"
        body = {
            "metadata": {"name": full},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": policy,
                "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": stage.root(cluster), "name": f"data-{policy.lower()}"},
            },
        }
        await stage.admin.create(resources.PERSISTENT_VOLUMES, body)
        return full

    going, kept = await volume("Delete"), await volume("Retain")
    await stage.admin.delete(resources.VIRTUAL_CLUSTERS, name, namespace="default")
    message = ""
    for _ in range(400):
        await stage.work(cluster)
        await stage.end_pods(cluster)
        ready = await stage.condition(cluster, "Ready")
        message = ready["message"] if ready else ""
        if "volumes" in message:
            break
        await asyncio.sleep(0.05)
    assert message == f"waiting for volumes to be deleted: {going}"
    await stage.admin.patch(resources.PERSISTENT_VOLUMES, going, {"metadata": {"finalizers": None}})
    await stage.admin.delete(resources.PERSISTENT_VOLUMES, going)
    await finish(stage, cluster)
    await stage.admin.get(resources.PERSISTENT_VOLUMES, kept)


async def test_a_new_tenant_of_an_old_name_shares_nothing(stage: ManagerStage):
    first = await stage.declare(name="again")
    await stage.work(first)
    await stage.tear_down(first)
    second = await stage.declare(name="again")
    await stage.work(second)
    assert stage.root(first) != stage.root(second)
    await stage.tear_down(second)


async def test_a_cluster_version_stays_while_a_tenant_names_it(stage: ManagerStage):
    spec = {"kubernetesVersion": "1.36", "serviceType": "ClusterIP"}
    body = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "ClusterVersion",
        "metadata": {"name": "in-use"},
        "spec": spec,
    }
    await stage.admin.create(resources.CLUSTER_VERSIONS, body)
    key = ReconcileKey("ClusterVersion", "", "in-use")
    cluster = await stage.declare(clusterVersionName="in-use")
    await stage.work(cluster)
    await stage.admin.delete(resources.CLUSTER_VERSIONS, "in-use")
    await finalizers.reconcile_cluster_version(stage.means, key)
    await stage.work(cluster)  # still served
    await stage.admin.get(resources.CLUSTER_VERSIONS, "in-use")
    metadata = cluster["metadata"]
    assert keys.build_virtual_cluster_key(metadata["namespace"], metadata["name"]) in stage.woken
    await stage.tear_down(cluster)
    assert key in stage.woken
    await finalizers.reconcile_cluster_version(stage.means, key)
    with pytest.raises(errors.NotFound):
        await stage.admin.get(resources.CLUSTER_VERSIONS, "in-use")
