"""Deletion protection of VirtualClusters and of their namespaces, by the policies of the chart."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.api.client import Client
from kubeio.errors import Forbidden, Invalid
from tenancy import wellknown
from tenancy.resources import NAMESPACES, VIRTUAL_CLUSTERS
from tests.chart.conftest import ChartApiServer
from tests.chart.gate import token
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration
PROTECTED = {wellknown.DELETION_PROTECTION: "enabled"}


async def declare(client: Client, namespace: str = "default", **changes: Any) -> str:
    name = fresh_name("vc")
    await client.create(
        VIRTUAL_CLUSTERS,
        {
            "apiVersion": VIRTUAL_CLUSTERS.api_version,
            "kind": "VirtualCluster",
            "metadata": {"name": name, "namespace": namespace, **changes.pop("metadata", {})},
            "spec": {"clusterVersionName": "v1.36", **changes},
        },
    )
    return name


async def refusal(client: Client, resource: Any, name: str, namespace: str = "") -> str:
    try:
        await client.delete(resource, name, namespace=namespace, dry_run=True)
    except Forbidden as problem:
        return problem.server_message
    return ""


async def test_a_protected_tenant_cannot_be_deleted_until_the_protection_is_removed(
    server: ChartApiServer,
):
    """T2-12, SEC-85."""
    async with Client(server.plane.endpoint) as client:
        name = await declare(client, metadata={"labels": PROTECTED})

        async def is_refused() -> bool:
            told = await refusal(client, VIRTUAL_CLUSTERS, name, "default")
            return "is protected from deletion. Delete it with kubectl vc delete" in told

        await eventually(is_refused)  # a policy takes effect some moments after it was created
        patch = {"metadata": {"labels": {wellknown.DELETION_PROTECTION: "disabled"}}}
        await client.patch(VIRTUAL_CLUSTERS, name, patch, namespace="default")
        assert await refusal(client, VIRTUAL_CLUSTERS, name, "default") == ""


async def test_a_tenant_with_a_grace_period_is_deleted_by_vc_manager_alone(server: ChartApiServer):
    """T2-12, SEC-85."""
    async with Client(server.plane.endpoint) as client:
        name = await declare(client, deletionGracePeriod="24h")

        async def is_refused() -> bool:
            told = await refusal(client, VIRTUAL_CLUSTERS, name, "default")
            return "has a grace period. Delete it with kubectl vc delete" in told

        await eventually(is_refused)
        stolen = server.plane.endpoint_with_token(token=await token(client, "vc-manager"))
        async with Client(stolen) as manager:
            told = await refusal(manager, VIRTUAL_CLUSTERS, name, "default")
            assert "only a VirtualCluster that is scheduled for deletion" in told
            patch = {"metadata": {"annotations": {wellknown.DELETE_AFTER: "2026-01-01T00:00:00Z"}}}
            await client.patch(VIRTUAL_CLUSTERS, name, patch, namespace="default")
            assert await refusal(manager, VIRTUAL_CLUSTERS, name, "default") == ""
        assert "has a grace period" in await refusal(client, VIRTUAL_CLUSTERS, name, "default")


async def test_a_namespace_with_a_protected_tenant_cannot_be_deleted(server: ChartApiServer):
    """T2-12, SEC-85."""
    async with Client(server.plane.endpoint) as client:
        name = fresh_name("team")
        await client.create(NAMESPACES, {"metadata": {"name": name, "labels": PROTECTED}})

        async def is_refused() -> bool:
            told = await refusal(client, NAMESPACES, name)
            return "has a VirtualCluster that is protected" in told

        await eventually(is_refused)
        patch = {"metadata": {"labels": {wellknown.DELETION_PROTECTION: None}}}
        await client.patch(NAMESPACES, name, patch)
        assert await refusal(client, NAMESPACES, name) == ""


@pytest.mark.parametrize("period", ["1d", "", "-1h", "9000h", "24"])
async def test_a_grace_period_that_is_no_duration_is_refused(server: ChartApiServer, period: str):
    async with Client(server.plane.endpoint) as client:
        with pytest.raises(Invalid, match="deletionGracePeriod"):
            await declare(client, deletionGracePeriod=period)
