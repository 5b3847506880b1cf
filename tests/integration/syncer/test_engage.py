"""A tenant is engaged while it has a kubeconfig, and left when its VirtualCluster is deleted."""

from __future__ import annotations

from tenancy import names, wellknown
from tenancy.resources import NAMESPACES, SERVICE_ACCOUNTS
from tests.integration.syncer.world import SYSTEM_NAMESPACES, SyncerWorld
from tests.support.eventually import eventually


async def test_a_fresh_tenant_gets_its_four_super_namespaces(synced: SyncerWorld):
    wanted = {synced.super_namespace(name) for name in SYSTEM_NAMESPACES}
    found = await synced.super_client.list(
        NAMESPACES, label_selector=f"{wellknown.VC_UID}={synced.tenant.uid},{wellknown.NAMESPACE}"
    )
    by_name = {item["metadata"]["name"]: item["metadata"] for item in found["items"]}
    assert wanted <= set(by_name)
    default = by_name[synced.super_namespace("default")]
    tenant_default = await synced.tenant_client.get(NAMESPACES, "default")
    assert default["annotations"][wellknown.UID] == tenant_default["metadata"]["uid"]
    assert default["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    account = await synced.super_client.get(
        SERVICE_ACCOUNTS, names.WORKLOAD_ACCOUNT, namespace=synced.super_namespace("default")
    )
    assert account["automountServiceAccountToken"] is False


async def test_the_condition_reports_synced(synced: SyncerWorld):
    condition = await eventually(lambda: synced.condition(wellknown.SYNCED))
    assert (condition["status"], condition["reason"]) == ("True", "Engaged")
    held = await synced.condition(wellknown.DELETES_HELD)
    assert held["status"] == "False"
