"""Events that charge and release. `test_tenant_quotas` has the amounts."""

from __future__ import annotations

from syncer.handlers.quota_events import QuotaEvents
from syncer.tenants.memory.tenant_quotas import QuotaAccountants
from tenancy import wellknown
from tenancy.policy.quotas import parse_hard
from tests.support.syncer.sessions import TENANT, SessionWorld, put


async def test_an_object_that_is_given_to_another_tenant_is_released():
    world, accountants = SessionWorld(), QuotaAccountants()
    home = world.super_cluster
    QuotaEvents(home, accountants).subscribe()
    accountant = await accountants.start(
        TENANT,
        parse_hard({"services": 5}),
        (home,),
        volumes=home.volumes,
        claims=home.stores["PersistentVolumeClaim"],
    )
    entry = world.super_has("Service", "s", spec={"ports": []})
    assert accountant.get_used("services") == 1000
    body = entry.decode()
    labels = {**entry.labels, wellknown.VC_UID: "another"}
    metadata = {**body["metadata"], "labels": labels, "resourceVersion": "61"}
    put(home.stores["Service"], {**body, "metadata": metadata})
    assert accountant.get_used("services") == 0
