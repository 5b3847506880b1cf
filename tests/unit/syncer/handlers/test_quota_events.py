"""Events that charge and release. `test_tenant_quotas` has the amounts."""

from __future__ import annotations

from typing import Any

from kubeio.cache.store import Store
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import BY_TENANT_INDEX, index_by_tenant
from syncer.handlers.quota_events import QuotaEvents
from syncer.safety.quota_accounting import QuotaAccountant
from syncer.tenants.memory.tenant_quotas import QuotaAccountants
from tenancy import wellknown
from tenancy.policy.quotas import parse_hard
from tests.support.syncer.sessions import TENANT, SessionWorld, put


async def start(
    accountants: QuotaAccountants, home: HomeCluster, hard: dict[str, int]
) -> QuotaAccountant:
    """Start the accountant of the tenant with limits."""
    return await accountants.start(
        TENANT,
        parse_hard(hard),
        (home,),
        volumes=home.volumes,
        claims=home.stores["PersistentVolumeClaim"],
    )


async def test_an_object_that_is_given_to_another_tenant_is_released():
    world, accountants = SessionWorld(), QuotaAccountants()
    home = world.super_cluster
    QuotaEvents(home, accountants).subscribe()
    accountant = await start(accountants, home, {"services": 5})
    entry = world.super_has("Service", "s", spec={"ports": []})
    assert accountant.get_used("services") == 1000
    body = entry.decode()
    labels = {**entry.labels, wellknown.VC_UID: "another"}
    metadata = {**body["metadata"], "labels": labels, "resourceVersion": "61"}
    put(home.stores["Service"], {**body, "metadata": metadata})
    assert accountant.get_used("services") == 0


DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def add_rule(world: SessionWorld, kind: str) -> None:
    """Have the cache of a rule, as it begins while the syncer runs."""
    home = world.super_cluster
    home.stores[kind] = Store({BY_TENANT_INDEX: index_by_tenant})
    for handler in home.ruled._on_added:
        handler(kind, home.stores[kind])


def claim_spec(count: int) -> dict[str, Any]:
    """Return the spec of a claim."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    return {"devices": {"requests": [request]}}


async def test_claims_count_from_the_begin_of_their_rule():
    world, accountants = SessionWorld(), QuotaAccountants()
    home = world.super_cluster
    QuotaEvents(home, accountants).subscribe()
    accountant = await start(accountants, home, {DEVICES: 5})
    for kind in ("ResourceClaim", "Widget"):
        add_rule(world, kind)
    world.super_has("ResourceClaim", "c", spec=claim_spec(2))
    allocated = {"allocation": {"devices": {"results": []}}}
    changed = {"resourceVersion": "61"}
    entry = world.super_has(
        "ResourceClaim", "c", metadata=changed, spec=claim_spec(2), status=allocated
    )
    assert accountant.get_used(DEVICES) == 2000
    # Another tenant starts later, when the cache is filled already.
    again = await start(QuotaAccountants(), home, {DEVICES: 5})
    assert again.get_used(DEVICES) == 2000
    home.stores["ResourceClaim"].discard(entry, live=True)
    assert accountant.get_used(DEVICES) == 0
