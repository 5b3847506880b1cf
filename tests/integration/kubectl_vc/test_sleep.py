"""`kubectl vc sleep` and `kubectl vc wake`, on objects of a real API server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS
from tests.integration.kubectl_vc.conftest import UserTerminal
from tests.support.eventually import eventually

NAME = "virtualcluster.tenancy.x-k8s.io/web"
READY = ("True", "Ready", "all is well")
ASLEEP = ("False", wellknown.ASLEEP, "The tenant is asleep.")


async def sleep_of(desk: UserTerminal) -> Any:
    """Return `spec.sleep`."""
    return (await desk.fetch())["spec"].get("sleep")


async def test_a_tenant_falls_asleep_and_wakes(desk: UserTerminal):
    """REL-132."""
    await desk.make()
    await desk.report(Ready=READY)
    running = await desk.start("sleep", "web", "-n", desk.namespace, "--workloads", "scale-to-zero")
    await eventually(lambda: sleep_of(desk), within=20)
    assert await sleep_of(desk) == {"workloads": "ScaleToZero"}
    await desk.client.patch(
        VIRTUAL_CLUSTERS,
        "web",
        {"status": {"phase": wellknown.ASLEEP}},
        namespace=desk.namespace,
        subresource="status",
    )
    await desk.report(Ready=ASLEEP)
    done = await running.end()
    assert (done.code, done.out) == (
        *(0, f"{NAME} is asleep. Its pods are stopped. Wake it with `kubectl vc wake web`.\n"),
    ), done
    listed = await desk.run("list", "-n", desk.namespace)
    assert listed.out.splitlines()[1].split()[:3] == ["web", "Asleep", "False"]

    again = await desk.run("sleep", "web", "-n", desk.namespace, "--no-wait")
    assert again.out.startswith(f"{NAME} falls asleep. Its pods run on.")
    assert await sleep_of(desk) == {"workloads": "Keep"}

    running = await desk.start("wake", "web", "-n", desk.namespace)

    async def is_woken() -> bool:
        return await sleep_of(desk) is None

    await eventually(is_woken, within=20)
    await desk.report(Ready=READY)
    done = await running.end()
    assert done.code == 0, done
    assert done.out.endswith(f"{NAME} is awake\n"), done


async def test_a_dry_run_changes_nothing(desk: UserTerminal):
    await desk.make()
    done = await desk.run("sleep", "web", "-n", desk.namespace, "--dry-run")
    assert (done.code, done.out) == (0, f"{NAME} would fall asleep (dry run). Its pods run on.\n")
    assert await sleep_of(desk) is None
    await desk.run("sleep", "web", "-n", desk.namespace, "--no-wait")
    done = await desk.run("wake", "web", "-n", desk.namespace, "--dry-run")
    assert (done.code, done.out) == (0, f"{NAME} would wake (dry run)\n")
    assert await sleep_of(desk) == {"workloads": "Keep"}


@pytest.mark.parametrize("verb", ["sleep", "wake"])
async def test_a_tenant_that_cannot_change_is_named(desk: UserTerminal, verb: str):
    await desk.make()
    later = conditions.format_time(datetime.now(UTC) + timedelta(hours=1))
    rows: tuple[tuple[dict[str, Any], str], ...] = (
        ({"spec": {"pausedUntil": later}}, f"is paused until {later}"),
        (
            {"metadata": {"annotations": {wellknown.DELETE_AFTER: later}}},
            "is scheduled for deletion, so its control plane is stopped",
        ),
        ({"metadata": {"finalizers": [wellknown.FINALIZER]}}, "is being deleted"),
    )
    for patch, told in rows:
        await desk.client.patch(VIRTUAL_CLUSTERS, "web", patch, namespace=desk.namespace)
        if "being deleted" in told:
            await desk.client.delete(VIRTUAL_CLUSTERS, "web", namespace=desk.namespace)
        done = await desk.run(verb, "web", "-n", desk.namespace)
        assert (done.code, told in done.err) == (1, True), done
    free = {"metadata": {"finalizers": None}}
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", free, namespace=desk.namespace)


async def test_a_sleep_that_takes_too_long_reports_what_it_waits_for(desk: UserTerminal):
    await desk.make()
    words = ("sleep", "web", "-n", desk.namespace)
    running = await desk.start(*words, "--timeout", "3s")
    await eventually(lambda: sleep_of(desk), within=20)
    await desk.report(Ready=("False", "FallingAsleep", "Waiting for the syncer."))
    done = await running.end()
    assert done.code == 1
    assert "is not asleep after 3.0s: Waiting for the syncer. It goes on" in done.err


async def test_pods_in_targets_are_not_scaled_to_zero(desk: UserTerminal):
    await desk.make(targets=[{"name": "far"}])
    words = ("sleep", "web", "-n", desk.namespace)
    done = await desk.run(*words, "--workloads", "scale-to-zero", "--no-wait")
    assert (done.code, "ScaleToZero cannot be used together with targets" in done.err) == (1, True)
    assert await sleep_of(desk) is None
