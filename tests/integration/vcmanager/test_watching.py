"""kopf's watches wake the right keys and write nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tenancy import ownership, resources, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import Resource
from tests.integration.vcmanager.conftest import USER, ManagerStage, cluster_version
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.runtime import keys
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.watches import kopf_watches


@pytest.fixture
async def woken(stage: ManagerStage) -> AsyncIterator[list[ReconcileKey]]:
    """The keys that the watches have woken, since all of them stand."""
    found: list[ReconcileKey] = []
    marker = await stage.declare()
    metadata = marker["metadata"]
    async with kopf_watches.run_watches(
        stage.plane.endpoint_for(USER), found.append, options=stage.means.settings
    ) as failed:
        key = keys.build_virtual_cluster_key(metadata["namespace"], metadata["name"])
        await eventually(lambda: key in found, within=30)
        yield found
        assert not failed.done()


def of(cluster) -> ReconcileKey:
    return keys.build_virtual_cluster_key(
        cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    )


async def test_a_virtual_cluster_enqueues_itself_and_keeps_our_finalizer(
    stage: ManagerStage, woken
):
    cluster = await stage.declare(clusterVersionName="nope")
    await eventually(lambda: of(cluster) in woken)
    woken.clear()
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"metadata": {"finalizers": [wellknown.FINALIZER]}},
        namespace="default",
    )
    await eventually(lambda: of(cluster) in woken)
    for number in range(3):
        woken.clear()
        await stage.admin.patch(
            resources.VIRTUAL_CLUSTERS,
            cluster["metadata"]["name"],
            {"metadata": {"labels": {"n": str(number)}}},
            namespace="default",
        )
        await eventually(lambda: of(cluster) in woken)
    found = await stage.fresh(cluster)
    assert found["metadata"]["finalizers"] == [wellknown.FINALIZER]
    assert set(found["metadata"].get("annotations") or {}) == set()
    assert "kopf" not in (found.get("status") or {})


async def test_a_cluster_version_enqueues_itself(stage: ManagerStage, woken):
    name = fresh_name("v")
    await stage.admin.create(resources.CLUSTER_VERSIONS, cluster_version(name))
    await eventually(lambda: ReconcileKey("ClusterVersion", "", name) in woken)


@pytest.mark.parametrize(
    "resource",
    [resources.SECRETS, resources.CONFIG_MAPS, resources.NETWORK_POLICIES],
    ids=lambda resource: resource.plural,
)
@pytest.mark.parametrize("label", [wellknown.CONTROLLED, wellknown.VC_NAME, wellknown.VC_NAMESPACE])
async def test_what_is_in_a_root_namespace_enqueues_its_virtual_cluster(
    stage: ManagerStage, woken, resource: Resource, label: str
):
    tenant = Tenant(name=fresh_name(), namespace="default", uid="u", root="r")
    key = keys.build_virtual_cluster_key("default", tenant.name)
    body = {"metadata": {"name": tenant.name, "labels": ownership.build_owner_labels(tenant, "")}}
    if resource is resources.NETWORK_POLICIES:
        body["spec"] = {"podSelector": {"matchLabels": {"no": "pod"}}}
    await stage.admin.create(resource, body, namespace="default")
    await eventually(lambda: key in woken)
    woken.clear()
    stripped = {"metadata": {"labels": {label: None}}}
    await stage.admin.patch(resource, tenant.name, stripped, namespace="default")
    await eventually(lambda: key in woken)
    await stage.admin.delete(resource, tenant.name, namespace="default")


async def test_a_root_namespace_and_what_agents_trust_enqueue_theirs(stage: ManagerStage, woken):
    tenant = Tenant(name=fresh_name(), namespace="default", uid="u", root="r")
    root = {"metadata": {"name": tenant.name, "labels": ownership.build_owner_labels(tenant, "")}}
    await stage.admin.create(resources.NAMESPACES, root)
    key = keys.build_virtual_cluster_key("default", tenant.name)
    await eventually(lambda: key in woken)
    woken.clear()
    revision = {"metadata": {"annotations": {wellknown.STORE_REVISION: "7"}}}
    await stage.admin.patch(resources.NAMESPACES, tenant.name, revision)
    await asyncio.sleep(0.5)
    assert key not in woken, "the syncer's marks wake nobody"
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    await stage.admin.patch(resources.NAMESPACES, tenant.name, level)
    await eventually(lambda: key in woken)
    trust = {"metadata": {"name": tenant.name, "labels": keys.AGENT_TRUST_LABELS}}
    await stage.admin.create(resources.CONFIG_MAPS, trust, namespace="default")
    await eventually(lambda: keys.AGENT_TRUST_KEY in woken)


async def test_an_address_wakes_when_its_node_no_longer_has_it(stage: ManagerStage, woken):
    """By a change and by an end. All else that nodes say wakes no one."""
    name = fresh_name()
    await stage.admin.create(resources.NODES, {"metadata": {"name": name}})

    async def say(**status: object) -> None:
        await stage.admin.patch(resources.NODES, name, {"status": status}, subresource="status")

    def addresses() -> list[str]:
        return [key.name for key in woken if key.kind == "NodeAddress"]

    await say(addresses=[{"type": "InternalIP", "address": "192.0.2.7"}])
    await say(phase="Running")
    await asyncio.sleep(0.5)
    assert addresses() == []
    await say(addresses=[{"type": "InternalIP", "address": "192.0.2.8"}])
    await eventually(lambda: addresses() == ["192.0.2.7"])
    await stage.admin.delete(resources.NODES, name)
    await eventually(lambda: addresses() == ["192.0.2.7", "192.0.2.8"])


async def test_what_is_a_tenants_own_enqueues_nothing(stage: ManagerStage, woken):
    tenant = Tenant(name=fresh_name(), namespace="default", uid="u", root="r")
    body = {
        "metadata": {"name": tenant.name, "labels": ownership.build_owner_labels(tenant, "default")}
    }
    await stage.admin.create(resources.SECRETS, body, namespace="default")
    later = await stage.declare(clusterVersionName="nope")  # its event comes after the other's
    await eventually(lambda: of(later) in woken)
    await asyncio.sleep(0.3)
    assert keys.build_virtual_cluster_key("default", tenant.name) not in woken


async def test_kopf_leaves_no_task_and_no_connection_behind(stage: ManagerStage):
    before = asyncio.all_tasks()
    async with kopf_watches.run_watches(
        stage.plane.endpoint_for(USER), [].append, options=stage.means.settings
    ):
        await asyncio.sleep(0.5)
    await eventually(lambda: not asyncio.all_tasks() - before)


async def test_a_super_cluster_enqueues_itself_and_its_status_enqueues_nothing(
    stage: ManagerStage, woken
):
    name = fresh_name("c")
    key = ReconcileKey("SuperCluster", "", name)
    body = {
        "apiVersion": resources.SUPER_CLUSTERS.api_version,
        "kind": "SuperCluster",
        "metadata": {"name": name},
        "spec": {"secretRef": {"name": "none"}},
    }
    await stage.admin.create(resources.SUPER_CLUSTERS, body)
    await eventually(lambda: key in woken)
    woken.clear()
    said = {"status": {"version": "v1.36.4"}}
    await stage.admin.patch(resources.SUPER_CLUSTERS, name, said, subresource="status")
    await asyncio.sleep(0.5)
    assert key not in woken
    changed = {"spec": {"server": "https://10.0.0.5:6443"}}
    await stage.admin.patch(resources.SUPER_CLUSTERS, name, changed)
    await eventually(lambda: key in woken)
    woken.clear()
    await stage.admin.delete(resources.SUPER_CLUSTERS, name)
    await eventually(lambda: key in woken)
