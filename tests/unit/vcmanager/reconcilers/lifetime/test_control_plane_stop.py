"""Stop of a control plane: own workloads only, at once or in order."""

from __future__ import annotations

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import RecordingClient, fake_means, pod, workload
from vcmanager.reconcilers.lifetime import control_plane_stop
from vcmanager.runtime.observed import ObservedObjects


def observed(*pods: str, **replicas: int) -> ObservedObjects:
    """Return a root namespace. A name that begins with `foreign` is no own workload."""
    found = {}
    for name, number in replicas.items():
        found[name] = workload(name, replicas=number)
        if not name.startswith("foreign"):
            found[name]["metadata"]["annotations"] = {wellknown.LAST_WRITTEN_DIGEST: "d"}
    running = {name: pod(name, name.partition("-")[0]) for name in pods}
    return ObservedObjects(namespace={}, objects={"StatefulSet": found, "Pod": running})


async def stopped(found: ObservedObjects, *, in_order: bool) -> list[str]:
    client = RecordingClient()
    act = control_plane_stop.stop_in_order if in_order else control_plane_stop.stop_control_plane
    await act(fake_means(client), found)
    assert all(body["spec"] == {"replicas": 0} for body in client.bodies)
    assert {verb for verb, _ in client.calls} <= {"patch"}
    return [name for _, name in client.calls]


@pytest.mark.parametrize(
    ("found", "at_once", "in_order"),
    [
        (observed(etcd=3, apiserver=1, foreign=1), ["etcd", "apiserver"], ["apiserver"]),
        (observed("apiserver-0", etcd=3, apiserver=0), ["etcd"], []),
        (observed("foreign-0", etcd=3, apiserver=1), ["etcd", "apiserver"], []),
        (observed("snapshot-0", etcd=1, apiserver=0), ["etcd"], ["etcd"]),
        (observed(etcd=0, foreign=1), [], []),
    ],
)
async def test_own_workloads_are_scaled_to_zero(found, at_once, in_order):
    assert await stopped(found, in_order=False) == at_once
    assert await stopped(found, in_order=True) == in_order


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (observed(), False),
        (observed(etcd=0), False),
        (observed(etcd=1), True),
        (observed("etcd-0", etcd=0), True),
        (observed("snapshot-0", etcd=0), False),
        (observed(foreign=1), False),
    ],
)
def test_a_component_runs_while_it_has_replicas_or_pods(found, expected):
    assert control_plane_stop.has_running_component(found) is expected
