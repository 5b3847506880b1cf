"""Accountants of all tenants: started from full caches, and fed by them afterwards."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Store, parse_entry
from syncer.handlers.quota_events import QuotaEvents
from syncer.safety.quota_accounting import QuotaAccountant, QuotaExceededError
from syncer.tenants.memory.tenant_quotas import QuotaAccountants
from tenancy.policy.quotas import parse_hard
from tests.support.syncer.sessions import TENANT, SessionWorld

GIB = 2**30 * 1000
POD = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


async def start(
    world: SessionWorld, accountants: QuotaAccountants, **quota: Any
) -> QuotaAccountant:
    """Start the accountant of the tenant."""
    home = world.super_cluster
    return await accountants.start(
        TENANT,
        parse_hard(quota),
        (home,),
        volumes=home.volumes,
        claims=home.stores["PersistentVolumeClaim"],
    )


async def test_what_exists_is_counted_once_at_the_start_and_after_it():
    world, accountants = SessionWorld(), QuotaAccountants()
    QuotaEvents(world.super_cluster, accountants).subscribe()
    world.super_has("Pod", "a", spec=POD)
    world.super_has("Service", "s", spec={"ports": []})
    accountant = await start(world, accountants, pods=5)
    assert accountant.get_used("pods") == 1000
    world.super_has("Pod", "b", spec=POD)
    assert accountant.get_used("pods") == 2000
    assert await start(world, accountants, pods=5, services=5) is accountant
    assert accountant.get_used("pods") == 2000  # a second connection counts nothing twice
    assert accountant.get_used("services") == 1000
    store: Store = world.super_cluster.stores["Pod"]
    for entry in store.list():
        store.discard(entry, live=True)
    assert accountant.get_used("pods") == 0
    accountants.forget(TENANT.uid)
    assert accountants.get(TENANT.uid) is None


async def test_tokens_and_service_variables_count_as_their_kinds():
    world, accountants = SessionWorld(), QuotaAccountants()
    QuotaEvents(world.super_cluster, accountants).subscribe()
    accountant = await start(world, accountants, configmaps=9, secrets=9)
    world.has_service_variables()
    world.super_has("Secret", "vc-token-x", data={"token": "eA=="})
    assert accountant.get_used("configmaps") == 2000
    assert accountant.get_used("secrets") == 1000


def volume(policy: str, uid: str = "data-below") -> Any:
    """Return a super volume of the tenant's claim."""
    claim = {"namespace": f"{TENANT.root}-web", "name": "data", "uid": uid}
    spec = {
        "capacity": {"storage": "2Gi"},
        "persistentVolumeReclaimPolicy": policy,
        "claimRef": claim,
        "storageClassName": "gold",
    }
    metadata = {"name": "pv", "uid": "pv", "resourceVersion": str(hash(policy) % 1000 + 1)}
    return parse_entry(orjson.dumps({"metadata": metadata, "spec": spec}))


async def test_a_retained_volume_counts_from_the_end_of_its_claim():
    """SEC-63."""
    world, accountants = SessionWorld(), QuotaAccountants()
    home = world.super_cluster
    QuotaEvents(home, accountants).subscribe()
    accountant = await start(world, accountants, **{"requests.storage": "9Gi"})
    spec = {"volumeName": "pv", "resources": {"requests": {"storage": "2Gi"}}}
    claim = world.super_has("PersistentVolumeClaim", "data", spec=spec)
    home.volumes.put(volume("Retain"), live=True)
    assert accountant.get_used("requests.storage") == 2 * GIB
    home.stores["PersistentVolumeClaim"].discard(claim, live=True)
    assert accountant.get_used("requests.storage") == 2 * GIB
    # A new process finds it, too.
    again = await start(world, QuotaAccountants(), **{"requests.storage": "9Gi"})
    assert again.get_used("requests.storage") == 2 * GIB
    assert again.get_used("gold.storageclass.storage.k8s.io/requests.storage") == 2 * GIB
    home.volumes.put(volume("Delete"), live=True)
    assert accountant.get_used("requests.storage") == 0
    home.volumes.put(volume("Retain"), live=True)
    assert accountant.get_used("requests.storage") == 2 * GIB
    home.volumes.discard(volume("Retain"), live=True)
    assert accountant.get_used("requests.storage") == 0


async def test_a_target_that_is_no_longer_declared_counts_nothing():
    world, accountants = SessionWorld(), QuotaAccountants()
    accountant = await start(world, accountants, pods=5)
    accountant.observe(world.key("Pod", "web", "a"), {"pods": 1000}, "1")
    away = world.key("Pod", "web", "b")._replace(super_cluster="east")
    accountant.observe(away, {"pods": 1000}, "1")
    accountants.forget_cluster("east")
    assert accountant.get_used("pods") == 1000


async def test_a_session_knows_the_overhead_of_runtime_classes():
    world = SessionWorld()
    accountant = world.session.quota
    accountant.set_hard(parse_hard({"cpu": "1"}))
    body = {
        "metadata": {"name": "sandbox", "uid": "u", "resourceVersion": "1"},
        "overhead": {"podFixed": {"cpu": "500m"}},
    }
    world.super_cluster.classes["RuntimeClass"].put(parse_entry(orjson.dumps(body)), live=True)
    pod = {"spec": {**POD, "runtimeClassName": "sandbox"}}
    with (
        pytest.raises(QuotaExceededError, match="requested 1500m"),
        accountant.charge(world.key("Pod", "web", "a"), "Pod", pod),
    ):
        pass
