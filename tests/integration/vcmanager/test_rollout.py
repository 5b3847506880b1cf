"""Waves of a changed ClusterVersion, and an upgrade that is taken back half way, with real servers.

Many tenants, restarts and clocks are in `tests/unit/vcmanager/reconcilers/test_rollout.py`.
"""

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta

import pytest

from kubeio import Object, errors
from tenancy import resources
from tenancy.resources import CLUSTER_VERSIONS, STATEFUL_SETS, VIRTUAL_CLUSTERS
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.support.names import fresh_name
from vcmanager.reconcilers.rollout import reconcile_rollout
from vcmanager.runtime.keys import build_rollout_key

pytestmark = pytest.mark.integration

SHORT = {"serviceType": "ClusterIP", "rollout": {"maxUnavailable": 1, "deadlineSeconds": 60}}


async def create_version(stage: ManagerStage, minor: str = "1.36") -> str:
    name = fresh_name(f"v{minor}")
    made = cluster_version(name, kubernetesVersion=minor, **SHORT)
    await stage.admin.create(CLUSTER_VERSIONS, made)
    return name


async def container_of(stage: ManagerStage, cluster: Object, name: str = "apiserver") -> Object:
    container: Object = (await stage.admin.get(STATEFUL_SETS, name, namespace=stage.root(cluster)))[
        "spec"
    ]["template"]["spec"]["containers"][0]
    return container


async def has_flag(stage: ManagerStage, cluster: Object, flag: str) -> bool:
    container = await container_of(stage, cluster)
    return flag in str(container)


async def state(stage: ManagerStage, cluster: Object) -> str:
    found = await stage.condition(cluster, "ControlPlaneUpToDate")
    assert found is not None
    return str(found["reason"])


async def finish(stage: ManagerStage, cluster: Object) -> None:
    """Work and run pods until the control plane is up to date."""
    for _ in range(300):
        with contextlib.suppress(errors.NotFound):  # the pod has just been replaced
            await stage.run_pods(cluster)
        await stage.work(cluster)
        ready = await stage.condition(cluster, "Ready")
        if await state(stage, cluster) == "UpToDate" and ready and ready["status"] == "True":
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"never finished: {(await stage.fresh(cluster))['status']}")


async def rollout(stage: ManagerStage, version: str, **later: float) -> tuple[str, Object]:
    """Reconcile the rollout. Return the reason of RolledOut, and the counts."""
    now = stage.means.now
    means = replace(stage.means, now=lambda: now() + timedelta(**later))
    await reconcile_rollout(means, build_rollout_key(version))
    status = (await stage.admin.get(CLUSTER_VERSIONS, version))["status"]
    (condition,) = status["conditions"]
    return condition["reason"], status["rollout"]


async def test_a_changed_version_reaches_one_tenant_at_a_time_and_stops(stage: ManagerStage):
    """REL-110, REL-111."""
    version = await create_version(stage)
    first, second, third = [
        await stage.declare(clusterVersionName=version, dns="none") for _ in range(3)
    ]
    for each in (first, second, third):
        await stage.bring_up(each)
        await finish(stage, each)
    assert (await rollout(stage, version))[0] == "UpToDate"
    flags = {"extraArgs": {"apiServer": {"event-ttl": "2h"}}}
    await stage.admin.patch(CLUSTER_VERSIONS, version, {"spec": flags})
    for each in (first, second, third):
        await stage.work(each)
    assert [await has_flag(stage, each, "event-ttl") for each in (first, second, third)] == [
        *(True, False, False),
    ]
    for each in (second, third):
        assert await state(stage, each) == "WaitingForRollout"
        ready = await stage.condition(each, "Ready")
        assert ready is not None
        assert ready["status"] == "True"
    reason, counts = await rollout(stage, version)
    assert (reason, counts["waiting"], counts["tenants"]) == ("Progressing", 2, 3)
    # The first one does not come back.
    reason, counts = await rollout(stage, version, seconds=90)
    assert reason == "DeadlineExceeded"
    assert [slot["uid"] for slot in counts["slots"]] == [first["metadata"]["uid"]]
    await stage.work(second)
    assert not await has_flag(stage, second, "event-ttl")
    # It is mended, and the rollout goes on.
    await finish(stage, first)
    for each in (second, third):
        await finish(stage, each)
        assert await has_flag(stage, each, "event-ttl")
    assert (await rollout(stage, version))[0] == "UpToDate"


async def test_another_registry_of_the_installation_reaches_one_tenant_at_a_time(
    stage: ManagerStage,
):
    """REL-110: an upgrade of the chart, without a change of the ClusterVersion."""
    version = await create_version(stage)
    first, second = [await stage.declare(clusterVersionName=version, dns="none") for _ in range(2)]
    for each in (first, second):
        await stage.bring_up(each)
        await finish(stage, each)
    settings = replace(stage.means.settings, registry="registry.example/next")
    upgraded = replace(stage, means=replace(stage.means, settings=settings))
    for each in (first, second):
        await upgraded.work(each)
    images = [(await container_of(stage, each, "etcd"))["image"] for each in (first, second)]
    assert ["/next/" in image for image in images] == [True, False]
    assert await state(stage, second) == "WaitingForRollout"
    for each in (first, second):
        await finish(upgraded, each)
        assert "/next/" in (await container_of(stage, each))["image"]


async def test_a_certificate_is_renewed_while_the_tenant_waits(stage: ManagerStage):
    """REL-112."""
    version = await create_version(stage)
    cluster = await stage.declare(clusterVersionName=version)
    await stage.bring_up(cluster)
    await finish(stage, cluster)
    changed = {
        "rollout": {"paused": True},
        "extraArgs": {"apiServer": {"event-ttl": "3h"}},
    }
    await stage.admin.patch(CLUSTER_VERSIONS, version, {"spec": changed})
    await stage.work(cluster)
    assert await state(stage, cluster) == "WaitingForRollout"
    root = stage.root(cluster)
    # The controller manager reads its kubeconfig only once, so that a new one restarts it.
    before = await stage.admin.get(STATEFUL_SETS, "controller-manager", namespace=root)
    await stage.work(cluster)
    again = await stage.admin.get(STATEFUL_SETS, "controller-manager", namespace=root)
    assert again["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    await stage.admin.delete(resources.SECRETS, "controller-manager-kubeconfig", namespace=root)
    await stage.work(cluster)
    after = await stage.admin.get(STATEFUL_SETS, "controller-manager", namespace=root)
    assert after["spec"]["template"]["metadata"] != before["spec"]["template"]["metadata"]
    assert after["spec"]["template"]["spec"] == before["spec"]["template"]["spec"]
    assert await state(stage, cluster) == "WaitingForRollout"
    await stage.admin.patch(CLUSTER_VERSIONS, version, {"spec": {"rollout": {"paused": False}}})
    await finish(stage, cluster)
    assert await has_flag(stage, cluster, "event-ttl")


@pytest.mark.parametrize(
    ("before", "after"),
    [("1.35", "1.36"), pytest.param("1.36", "1.37", marks=pytest.mark.thorough)],
)
async def test_an_upgrade_that_never_became_ready_is_taken_back_half_way(
    stage: ManagerStage, monkeypatch, before: str, after: str
):
    """REL-113."""

    async def older() -> str:
        return f"v{before}.4"

    old, new = await create_version(stage, before), await create_version(stage, after)
    monkeypatch.setattr(stage.tenants.client, "version", older)
    cluster = await stage.declare(clusterVersionName=old)
    await stage.bring_up(cluster)
    await finish(stage, cluster)
    metadata = cluster["metadata"]
    await pick(stage, metadata, new)
    await stage.work(cluster, times=2)
    assert f"v{after}" in (await container_of(stage, cluster))["image"]
    manager = await stage.admin.get(
        STATEFUL_SETS, "controller-manager", namespace=stage.root(cluster)
    )
    assert f"v{before}" in str(manager["spec"]["template"])
    # The newer API server does not start. The version that runs is still the older one.
    assert (await stage.fresh(cluster))["status"]["version"] == f"v{before}.4"
    await pick(stage, metadata, old)
    await stage.work(cluster)
    assert f"v{before}" in (await container_of(stage, cluster))["image"]
    await finish(stage, cluster)
    reason, counts = await rollout(stage, new)
    assert (reason, counts["slots"]) == ("UpToDate", [])


async def pick(stage: ManagerStage, metadata: Object, version: str) -> None:
    await stage.admin.patch(
        VIRTUAL_CLUSTERS,
        metadata["name"],
        {"spec": {"clusterVersionName": version}},
        namespace=metadata["namespace"],
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"maxUnavailable": 0},
        {"maxUnavailable": "0%"},
        {"maxUnavailable": "many"},
        {"maxUnavailable": "101%"},
        {"window": {"start": "24:00", "durationMinutes": 5}},
        {"window": {"start": "22:00", "durationMinutes": 5, "days": ["Someday"]}},
        {"deadlineSeconds": 5},
        {"maxFailed": -1},
    ],
)
async def test_a_rollout_that_means_nothing_is_refused(stage: ManagerStage, spec):
    made = cluster_version(fresh_name("refused"), kubernetesVersion="1.36", rollout=spec)
    with pytest.raises(errors.Invalid):
        await stage.admin.create(CLUSTER_VERSIONS, made)


@pytest.mark.parametrize("spec", [{"maxUnavailable": 3}, {"maxUnavailable": "100%"}])
async def test_these_are_accepted(stage: ManagerStage, spec):
    made = cluster_version(fresh_name("accepted"), kubernetesVersion="1.36", rollout=spec)
    await stage.admin.create(CLUSTER_VERSIONS, made)
