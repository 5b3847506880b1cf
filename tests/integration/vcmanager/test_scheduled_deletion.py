"""Grace period of a deleted tenant: stopped, kept, undeleted, or deleted at its end (T2-12)."""

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from kubeio import errors
from tenancy import conditions, resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.test_deletion import is_there, super_namespace


async def annotate(stage: ManagerStage, cluster: Any, moment: datetime | None) -> None:
    value = conditions.format_time(moment) if moment is not None else None
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"metadata": {"annotations": {wellknown.DELETE_AFTER: value}}},
        namespace="default",
    )


async def replicas(stage: ManagerStage, cluster: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for resource in (resources.STATEFUL_SETS, resources.DEPLOYMENTS):
        page = await stage.admin.list(resource, namespace=stage.root(cluster))
        found |= {each["metadata"]["name"]: each["spec"]["replicas"] for each in page["items"]}
    return found


async def claims(stage: ManagerStage, cluster: Any) -> set[str]:
    page = await stage.admin.list(resources.PERSISTENT_VOLUME_CLAIMS, namespace=stage.root(cluster))
    return {each["metadata"]["uid"] for each in page["items"]}


async def test_a_scheduled_tenant_is_stopped_and_comes_back_with_all_that_it_had(
    stage: ManagerStage,
):
    """T2-12, SEC-86."""
    cluster = await stage.declare(deletionGracePeriod="24h")
    await stage.bring_up(cluster)
    space = await super_namespace(stage, cluster, "default")
    volumes, before = await claims(stage, cluster), await replicas(stage, cluster)
    assert volumes
    await annotate(stage, cluster, datetime.now(UTC) + timedelta(hours=24))
    await stage.work(cluster, 2)
    assert await replicas(stage, cluster) == dict.fromkeys(before, 0)
    ready = await stage.condition(cluster, "Ready")
    assert (ready or {}).get("reason") == "DeletionScheduled"
    assert "kubectl vc undelete" in (ready or {}).get("message", "")
    assert await is_there(stage, space)
    assert await claims(stage, cluster) == volumes

    await annotate(stage, cluster, None)
    await stage.end_pods(cluster)
    await stage.bring_up(cluster)
    assert await replicas(stage, cluster) == before
    assert await claims(stage, cluster) == volumes
    assert await is_there(stage, space)
    await stage.tear_down(cluster)


async def test_at_the_end_of_the_grace_period_the_tenant_is_deleted(stage: ManagerStage):
    """T2-12, SEC-86."""
    cluster = await stage.declare(deletionGracePeriod="1h")
    await stage.work(cluster, 2)
    await annotate(stage, cluster, datetime.now(UTC) + timedelta(minutes=30))
    await stage.work(cluster)
    assert "deletionTimestamp" not in (await stage.fresh(cluster))["metadata"]
    later = dataclasses.replace(stage.means, now=lambda: datetime.now(UTC) + timedelta(minutes=31))
    await dataclasses.replace(stage, means=later).work(cluster)
    assert "deletionTimestamp" in (await stage.fresh(cluster))["metadata"]
    await stage.tear_down(cluster)
    try:
        await stage.fresh(cluster)
    except errors.NotFound:
        return
    raise AssertionError("the VirtualCluster is still there")


async def test_the_namespace_of_a_protected_tenant_has_the_label_as_long_as_one_is_in_it(
    stage: ManagerStage,
):
    """T2-12, SEC-85."""

    async def label() -> str | None:
        found = await stage.admin.get(resources.NAMESPACES, "default")
        value: str | None = found["metadata"]["labels"].get(wellknown.DELETION_PROTECTION)
        return value

    async def protect(cluster: Any, value: str | None) -> None:
        await stage.admin.patch(
            resources.VIRTUAL_CLUSTERS,
            cluster["metadata"]["name"],
            {"metadata": {"labels": {wellknown.DELETION_PROTECTION: value}}},
            namespace="default",
        )
        await stage.work(cluster)

    first, second = await stage.declare(), await stage.declare()
    for each in (first, second):
        await protect(each, "enabled")
        assert await label() == "enabled"
    await protect(first, None)
    assert await label() == "enabled"
    await protect(second, "disabled")
    assert await label() is None
    for each in (first, second):
        await stage.tear_down(each)
