"""Writes of a tenant's cluster IPs."""

from __future__ import annotations

from syncer.controllers.network import cluster_ips
from tests.support.syncer.sessions import SessionWorld, is_counted, put


async def test_writes_of_an_address_are_counted():
    world = SessionWorld()
    below = {"metadata": {"name": "10.96.8.77", "uid": "i", "resourceVersion": "3"}}
    reference = {"group": "", "resource": "services", "namespace": "other", "name": "s"}
    put(world.super_cluster.addresses, {**below, "spec": {"parentRef": reference}})
    key = world.key("IPAddress", "", "10.96.8.77")
    await cluster_ips.reconcile_address(key, world.session)
    assert len(world.above.writes("IPAddress")) == 1
    assert is_counted(world, key, 1)
