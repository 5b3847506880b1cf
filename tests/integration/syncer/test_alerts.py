"""Each alert about the syncer's work fires in its fault, over what the syncer really tells.

The syncer runs in this process, so what it tells is this process's own. The rules are the chart's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from syncer.tenants import connection as links
from tenancy.resources import CONFIG_MAPS, PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_store_guard import held, wipe_store
from tests.integration.syncer.world import SyncerWorld
from tests.support.alerts import AlertScrape, Series, firing, scraped
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough

TROUBLES = (
    "VirtualClusterTenantNotConnected",
    "VirtualClusterTenantInTrouble",
    "VirtualClusterDeletesHeld",
    "VirtualClusterSyncSlow",
    "VirtualClusterDrift",
)
"""What no syncer at rest may tell."""


@pytest.fixture
async def own(super_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    """A tenant of the test's own, and a syncer that follows it and the shared one."""
    async with own_world(super_plane, tmp_path / fresh_name("tenant")) as world, world.syncer():
        yield world


def troubles(*scrapes: AlertScrape) -> list[str]:
    fired = firing(*scrapes)
    return [name for name in TROUBLES if name in fired]


def drifts(scrape: AlertScrape) -> dict[Series, float]:
    return {
        series: value
        for series, value in scrape.values.items()
        if series[0] == "vc_drift_repaired_total"
    }


async def config_map(world: SyncerWorld, space: str, name: str) -> None:
    """Create a ConfigMap with a copy in the super cluster, and a pod that needs it."""
    await world.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "1"}}, namespace=space
    )
    volume = {"name": "c", "configMap": {"name": name}}
    await world.tenant_client.create(PODS, pod(name, volumes=[volume]), namespace=space)
    await eventually(lambda: world.twin(CONFIG_MAPS, space, name))
    await world.idle()


async def test_a_syncer_at_rest_and_one_that_works_cause_no_alert(own: SyncerWorld):
    space = await own.namespace()
    before = scraped()
    await config_map(own, space, "quiet")
    assert troubles(before, scraped()) == []


async def test_a_virtual_cluster_that_is_not_followed(own: SyncerWorld):
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": "nowhere", "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    }
    await own.super_client.create(VIRTUAL_CLUSTERS, body)
    try:
        store = own.running[-1].home.virtual_clusters
        await eventually(lambda: store.get("default", "nowhere"))
        assert troubles(scraped()) == ["VirtualClusterTenantNotConnected"]
    finally:
        await own.super_client.delete(VIRTUAL_CLUSTERS, "nowhere", namespace="default")
    await eventually(lambda: store.get("default", "nowhere") is None)
    assert troubles(scraped()) == []


async def test_a_tenant_that_is_silent(own: SyncerWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.5)
    monkeypatch.setattr(links, "_HEALTH_CHECK_SECONDS", 0.1)
    own.tenant_plane.kill_apiserver()
    await eventually(lambda: own.session.connection.problem, within=60)
    found = firing(scraped())["VirtualClusterTenantInTrouble"]
    assert [alert.labels["condition"] for alert in found] == ["unreachable"]
    await own.tenant_plane.start()
    await eventually(lambda: not own.session.connection.problem, within=60)
    assert "VirtualClusterTenantInTrouble" not in firing(scraped())


async def test_a_tenant_whose_store_was_lost(own: SyncerWorld):
    await wipe_store(own)
    await held(own)
    (alert,) = await eventually(lambda: firing(scraped()).get("VirtualClusterDeletesHeld"))
    assert "1 tenants" in alert.annotations["description"]


async def test_a_super_cluster_that_answers_late(own: SyncerWorld):
    space = await own.namespace()
    await config_map(own, space, "early")
    before = scraped()
    await own.tenant_client.create(PODS, pod("late"), namespace=space)
    own.super_plane.pause_apiserver()
    await asyncio.sleep(6)  # a write that takes this long is what the alert is about
    own.super_plane.resume_apiserver()
    await eventually(lambda: own.twin(PODS, space, "late"), within=60)
    await own.idle()
    fired = firing(before, scraped())["VirtualClusterSyncSlow"]
    assert "down" in {alert.labels["direction"] for alert in fired}


async def test_another_writer_that_keeps_changing_twins(own: SyncerWorld):
    space = await own.namespace()
    await config_map(own, space, "edited")
    before = scraped()
    super_space = own.super_namespace(space)
    for number in range(3):
        body = {"data": {"a": f"edited {number}"}}
        await own.super_client.patch(CONFIG_MAPS, "edited", body, namespace=super_space)
        await eventually(
            lambda: own.twin(CONFIG_MAPS, space, "edited"),
            until=lambda twin: twin["data"] == {"a": "1"},
        )
    await own.idle()
    (alert,) = firing(before, scraped())["VirtualClusterDrift"]
    assert (alert.labels["side"], alert.labels["kind"]) == ("super", "ConfigMap")


async def test_what_the_tenant_changes_itself_is_no_drift(own: SyncerWorld):
    space = await own.namespace()
    await config_map(own, space, "changed")
    before = scraped()
    for number in range(5):
        body = {"data": {"a": f"changed {number}"}}
        await own.tenant_client.patch(CONFIG_MAPS, "changed", body, namespace=space)
        await eventually(
            lambda: own.twin(CONFIG_MAPS, space, "changed"),
            until=lambda twin, wanted=body["data"]: twin["data"] == wanted,
        )
    await own.idle()
    assert drifts(scraped()) == drifts(before)
