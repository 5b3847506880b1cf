"""Sleep, pause and expiry of a tenant, on a real API server with the gate of the chart."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kubeio import Object, errors
from tenancy import conditions, resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.test_scheduled_deletion import claims, replicas

VIRTUAL_CLUSTERS = resources.VIRTUAL_CLUSTERS
_ROUNDS = 200


async def change(stage: ManagerStage, cluster: Object, **spec: Any) -> None:
    """Patch the spec of a VirtualCluster."""
    name = cluster["metadata"]["name"]
    await stage.admin.patch(VIRTUAL_CLUSTERS, name, {"spec": spec}, namespace="default")


async def is_asleep(stage: ManagerStage, cluster: Object) -> bool:
    ready = await stage.condition(cluster, "Ready")
    return ready is not None and ready["reason"] == wellknown.ASLEEP


async def fall_asleep(stage: ManagerStage, cluster: Object) -> list[frozenset[str]]:
    """Work until a tenant is asleep. Return the sets of workloads that had replicas."""
    seen: list[frozenset[str]] = []
    for _ in range(_ROUNDS):
        await stage.work(cluster)
        running = frozenset(name for name, n in (await replicas(stage, cluster)).items() if n)
        if running not in seen:
            seen.append(running)
        if await is_asleep(stage, cluster):
            return seen
        await stage.end_pods(cluster)
        await asyncio.sleep(0.02)
    raise AssertionError(f"never asleep: {(await stage.fresh(cluster))['status']}")


async def events(stage: ManagerStage, cluster: Object) -> set[str]:
    page = await stage.admin.list(resources.EVENTS, namespace="default")
    uid = cluster["metadata"]["uid"]
    return {each["reason"] for each in page["items"] if each["involvedObject"].get("uid") == uid}


async def test_an_asleep_tenant_has_no_pod_and_wakes_with_all_that_it_had(stage: ManagerStage):
    """REL-130, REL-132."""
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    await stage.work(cluster)
    volumes, before = await claims(stage, cluster), await replicas(stage, cluster)
    secrets = await stage.names_of(resources.SECRETS, cluster)
    leaf = (await stage.secret(cluster, "apiserver-ca"))["data"]
    assert volumes
    await change(stage, cluster, sleep={})
    seen = await fall_asleep(stage, cluster)
    assert seen[-3:] == [{"etcd", "apiserver"}, {"etcd"}, frozenset()]
    assert await stage.names_of(resources.PODS, cluster) == set()
    assert await claims(stage, cluster) == volumes
    assert await stage.names_of(resources.SECRETS, cluster) == secrets
    body = await stage.fresh(cluster)
    assert body["spec"]["sleep"] == {"workloads": "Keep"}
    assert body["status"]["phase"] == "Asleep"
    kinds = {each["type"] for each in body["status"]["conditions"]}
    assert not {"Reconciling", "Stalled", "EtcdReady"} & kinds
    assert cluster["metadata"]["uid"] in stage.tenants.dropped

    later = replace(stage.means, now=lambda: datetime.now(UTC) + timedelta(days=300))
    await change(stage, cluster, sleep=None)
    await replace(stage, means=later).work(cluster)
    renewed = (await stage.secret(cluster, "apiserver-ca"))["data"]
    assert renewed["tls.crt"] != leaf["tls.crt"], "certificates are renewed before the start"
    running = await replicas(stage, cluster)
    assert running["etcd"] == before["etcd"]
    assert {name for name, n in running.items() if n} == {"etcd"}, "the API server waits for etcd"
    await stage.bring_up(cluster)
    assert await replicas(stage, cluster) == before
    assert await claims(stage, cluster) == volumes

    async def is_told() -> bool:
        return wellknown.ASLEEP in await events(stage, cluster)

    for _ in range(_ROUNDS):
        if await is_told():
            break
        await asyncio.sleep(0.05)
    assert await is_told()
    await stage.tear_down(cluster)


async def test_a_tenant_that_is_declared_asleep_starts_when_it_wakes(stage: ManagerStage):
    cluster = await stage.declare(sleep={"workloads": "ScaleToZero"}, dns="none")
    await stage.work(cluster)
    assert await is_asleep(stage, cluster)
    await change(stage, cluster, sleep=None)
    await stage.bring_up(cluster)
    await stage.tear_down(cluster)


async def test_an_asleep_tenant_can_be_deleted(stage: ManagerStage):
    cluster = await stage.declare(dns="none")
    await stage.bring_up(cluster)
    await change(stage, cluster, sleep={})
    await fall_asleep(stage, cluster)
    await stage.tear_down(cluster)


async def test_nothing_is_changed_until_the_end_of_a_pause(stage: ManagerStage):
    """REL-134."""
    cluster = await stage.declare(dns="none")
    await stage.bring_up(cluster)
    await stage.work(cluster, 2)
    until = datetime.now(UTC) + timedelta(hours=1)
    await change(stage, cluster, pausedUntil=conditions.format_time(until))
    root = stage.root(cluster)
    await stage.admin.delete(resources.STATEFUL_SETS, "controller-manager", namespace=root)
    result = await stage.work(cluster)
    assert getattr(result, "after", 0) <= 3600
    assert "controller-manager" not in await stage.names_of(resources.STATEFUL_SETS, cluster)
    paused = await stage.condition(cluster, wellknown.PAUSED)
    ready = await stage.condition(cluster, "Ready")
    assert paused is not None
    assert ready is not None
    assert (paused["status"], ready["status"]) == ("True", "True")
    assert conditions.format_time(until) in paused["message"]

    over = replace(stage.means, now=lambda: until + timedelta(seconds=1))
    await replace(stage, means=over).work(cluster, 2)
    assert "controller-manager" in await stage.names_of(resources.STATEFUL_SETS, cluster)
    assert await stage.condition(cluster, wellknown.PAUSED) is None
    await stage.tear_down(cluster)


async def test_an_expired_tenant_is_deleted_unless_it_is_protected(stage: ManagerStage):
    """REL-135."""
    expires = datetime.now(UTC) + timedelta(hours=2)
    cluster = await stage.declare(expiresAt=conditions.format_time(expires), dns="none")
    name = cluster["metadata"]["name"]
    await stage.work(cluster)
    expiring = await stage.condition(cluster, wellknown.EXPIRING)
    assert expiring is not None
    assert expiring["reason"] == "ExpiresSoon"

    async def protect(value: str | None) -> None:
        labels = {wellknown.DELETION_PROTECTION: value}
        patch = {"metadata": {"labels": labels}}
        await stage.admin.patch(VIRTUAL_CLUSTERS, name, patch, namespace="default")

    await protect("enabled")
    late = replace(stage.means, now=lambda: expires + timedelta(seconds=5))
    later = replace(stage, means=late)
    await later.work(cluster)
    expiring = await stage.condition(cluster, wellknown.EXPIRING)
    assert expiring is not None
    assert expiring["reason"] == "DeletionProtected"
    await protect(None)
    await later.work(cluster)
    body = await stage.fresh(cluster)
    assert wellknown.DELETE_AFTER in body["metadata"]["annotations"]
    assert "deletionTimestamp" not in body["metadata"]
    await later.work(cluster)
    assert "deletionTimestamp" in (await stage.fresh(cluster))["metadata"]
    await stage.tear_down(cluster)


class KilledError(Exception):
    """vc-manager ends here."""


_VERBS = ("get", "list", "create", "apply", "patch", "replace", "delete")


class MortalClient:
    """The client of vc-manager. One request ends the process, before or after its effect."""

    def __init__(self, client: Any, *, kill_at: int, is_done: bool) -> None:
        self._client, self.kill_at, self.is_done, self.calls = client, kill_at, is_done, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in _VERBS:
            return found

        async def call(*args: Any, **more: Any) -> Any:
            number, self.calls = self.calls, self.calls + 1
            if number == self.kill_at and not self.is_done:
                raise KilledError
            answer = await found(*args, **more)
            if number == self.kill_at:
                raise KilledError
            return answer

        return call


async def run_until(stage: ManagerStage, cluster: Object, client: MortalClient, *, asleep: bool):
    """Work with one manager that is killed once, then with another one, until the end."""
    mortal = replace(stage, means=replace(stage.means, super_client=client))  # type: ignore[arg-type]
    for _ in range(_ROUNDS):
        with contextlib.suppress(KilledError, errors.Conflict):
            await mortal.work(cluster)
        ready = await stage.condition(cluster, "Ready")
        current = (await stage.fresh(cluster))["metadata"]["generation"]
        is_current = ready is not None and ready.get("observedGeneration", 0) >= current
        if is_current and asleep and await is_asleep(stage, cluster):
            return
        if is_current and not asleep and ready is not None and ready["status"] == "True":
            return
        await stage.end_pods(cluster)
        await stage.run_pods(cluster)
        await asyncio.sleep(0.01)
    raise AssertionError(f"not done: {(await stage.fresh(cluster))['status']}")


async def test_a_manager_that_is_killed_at_any_request_of_sleep_and_wake_ends_right(
    stage: ManagerStage,
):
    """REL-131: an index sweep. The requests of one reconcile are tried in steps."""
    cluster = await stage.declare(dns="none")
    await stage.bring_up(cluster)
    await stage.work(cluster, 2)
    before, volumes = await replicas(stage, cluster), await claims(stage, cluster)
    counts: dict[bool, int] = {}
    for asleep in (True, False):
        await change(stage, cluster, sleep={} if asleep else None)
        client = MortalClient(stage.manager, kill_at=-1, is_done=False)
        await run_until(stage, cluster, client, asleep=asleep)
        counts[asleep] = client.calls
    points = 0
    for kill_at in range(0, max(counts.values()), STEP):
        for asleep in (True, False):
            is_done = bool(kill_at // STEP % 2)
            await change(stage, cluster, sleep={} if asleep else None)
            client = MortalClient(stage.manager, kill_at=kill_at, is_done=is_done)
            await run_until(stage, cluster, client, asleep=asleep)
            points += kill_at < counts[asleep]
            found = await replicas(stage, cluster)
            assert found == (dict.fromkeys(before, 0) if asleep else before), kill_at
            assert await claims(stage, cluster) == volumes
    print(f"sleep and wake: {counts} requests, killed at {points} points")
    assert points >= 20
    await stage.tear_down(cluster)


STEP = 5
"""Distance of two tried requests. All of them would take minutes."""
