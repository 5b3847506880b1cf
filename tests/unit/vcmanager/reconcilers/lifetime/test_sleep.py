"""Sleep of a tenant, step by step, and vc-manager killed at each request of it."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from tenancy import wellknown
from tenancy.specs import parse_virtual_cluster
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means, pod, workload
from vcmanager.reconcilers.lifetime import sleep
from vcmanager.reconcilers.lifetime.sleep import SleepStep
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects

COMPONENTS = ("etcd", "apiserver", "controller-manager", "coredns")
LEASE = {"spec": {"holderIdentity": "syncer-0", "renewTime": "2026-03-01T12:00:00.000000Z"}}
SYNCED = {
    "type": wellknown.SYNCED,
    "status": "False",
    "reason": wellknown.ASLEEP,
    "observedGeneration": 2,
}


def body(*, sleep: dict[str, str] | None = None, synced: dict[str, Any] | None = None):
    spec: dict[str, Any] = {"clusterVersionName": "v1.36"}
    if sleep is not None:
        spec["sleep"] = sleep
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": TENANT.uid,
            "resourceVersion": "7",
            "generation": 2,
        },
        "spec": spec,
        "status": {"conditions": [synced] if synced else []},
    }


class ModelRoot:
    """Workloads and pods of a root namespace. A pod ends one round after its workload is stopped.

    `kill_at` is the number of a request, and `is_done` whether it takes effect before the end of
    vc-manager.
    """

    def __init__(self, *, kill_at: int = -1, is_done: bool = False) -> None:
        self.replicas = dict.fromkeys(COMPONENTS, 1)
        self.pods = set(COMPONENTS)
        self.slots = [{"uid": TENANT.uid, "since": "2026-03-01T11:00:00Z"}]
        self.kill_at, self.is_done, self.calls = kill_at, is_done, 0
        self.stopped: list[str] = []

    def observe(self) -> ObservedObjects:
        objects: dict[str, dict[str, Any]] = {"StatefulSet": {}, "Deployment": {}}
        for name, replicas in self.replicas.items():
            kind = "Deployment" if name == "coredns" else "StatefulSet"
            made = workload(name, replicas=replicas, kind=kind)
            made["metadata"]["annotations"] = {wellknown.LAST_WRITTEN_DIGEST: "d"}
            objects[kind][name] = made
        objects["Pod"] = {name: pod(f"{name}-0", name) for name in self.pods}
        objects["Pod"]["save"] = pod("save", "snapshot")
        return ObservedObjects(namespace={}, objects=objects)

    def end_pods(self) -> None:
        self.pods -= {name for name, replicas in self.replicas.items() if replicas == 0}

    async def get(self, _resource: Any, name: str, **_: Any) -> Any:
        def answer() -> Any:
            if name == wellknown.SYNCER:
                raise errors.NotFound("no Lease")
            rollout = {"slots": copy.deepcopy(self.slots)}
            metadata = {"name": name, "uid": "v", "resourceVersion": "1"}
            return {"metadata": metadata, "spec": {}, "status": {"rollout": rollout}}

        return self._call(answer)

    async def patch(self, resource: Any, name: str, body: Any, **_: Any) -> Any:
        def answer() -> Any:
            if resource.kind == "ClusterVersion":
                self.slots = body["status"]["rollout"]["slots"]
                return body
            needed_by = {"etcd": {"apiserver"}, "apiserver": {"controller-manager", "coredns"}}
            assert not needed_by.get(name, set()) & self.pods, (name, self.pods)
            self.replicas[name] = body["spec"]["replicas"]
            self.stopped.append(name)
            return body

        return self._call(answer)

    def _call(self, answer: Any) -> Any:
        number, self.calls = self.calls, self.calls + 1
        if number == self.kill_at and not self.is_done:
            raise KilledError
        try:
            return answer()
        finally:
            if number == self.kill_at:
                raise KilledError


class KilledError(Exception):
    """The process ends here."""


async def fall_asleep(root: ModelRoot) -> bool:
    """Reconcile until the tenant is asleep. Return whether vc-manager was killed on the way."""
    found, was_killed = body(sleep={}), False
    for _ in range(20):
        means = fake_means(root)  # type: ignore[arg-type]
        try:
            await sleep.hold_sleep(means, parse_virtual_cluster(found), found, root.observe())
        except KilledError:
            was_killed = True
        except PhaseBlocked as blocked:
            if blocked.reason == wellknown.ASLEEP:
                return was_killed
        root.end_pods()
    raise AssertionError(f"never asleep: {root.replicas} {root.pods}")


async def test_components_stop_in_the_reverse_order_of_their_start():
    """REL-130."""
    root = ModelRoot()
    await fall_asleep(root)
    assert set(root.stopped[:2]) == {"controller-manager", "coredns"}
    assert root.stopped[2:] == ["apiserver", "etcd"]
    assert root.slots == [], "a tenant that is asleep keeps no slot of a rollout"


async def test_a_manager_that_is_killed_at_any_request_of_a_sleep_ends_right():
    """REL-131."""
    root = ModelRoot()
    await fall_asleep(root)
    points = 0
    for kill_at in range(root.calls):
        for is_done in (False, True):
            killed = ModelRoot(kill_at=kill_at, is_done=is_done)
            assert await fall_asleep(killed), kill_at
            assert killed.replicas == dict.fromkeys(COMPONENTS, 0)
            assert killed.slots == []
            points += 1
    print(f"sleep: killed at {points} points")
    assert points >= 16


@pytest.mark.parametrize(
    ("wanted", "connected", "running", "step"),
    [
        (False, True, True, SleepStep.AWAKE),
        (False, False, False, SleepStep.AWAKE),
        (True, True, True, SleepStep.DISCONNECT),
        (True, False, True, SleepStep.STOP),
        (True, False, False, SleepStep.ASLEEP),
        (True, True, False, SleepStep.ASLEEP),
    ],
)
def test_the_next_step(wanted, connected, running, step):
    assert sleep.decide_step(wanted=wanted, connected=connected, running=running) is step


async def test_an_awake_tenant_costs_no_request():
    found, root = body(), ModelRoot()
    await sleep.hold_sleep(fake_means(root), parse_virtual_cluster(found), found, root.observe())
    assert root.calls == 0


@pytest.mark.parametrize(
    ("synced", "disconnected"),
    [
        (None, False),
        (SYNCED, True),
        ({**SYNCED, "reason": "Suspended"}, True),
        ({**SYNCED, "observedGeneration": 1}, False),
        ({**SYNCED, "reason": "TenantUnreachable"}, False),
        ({**SYNCED, "status": "True", "reason": "Engaged"}, False),
    ],
)
async def test_the_control_plane_runs_until_the_syncer_has_disconnected(synced, disconnected):
    found = body(sleep={"workloads": "ScaleToZero"}, synced=synced)
    assert sleep.is_disconnected(found) is disconnected
    client = RecordingClient({wellknown.SYNCER: LEASE})
    means = fake_means(client)
    with pytest.raises(PhaseBlocked) as caught:
        await sleep.hold_sleep(means, parse_virtual_cluster(found), found, ModelRoot().observe())
    assert caught.value.reason == sleep.FALLING_ASLEEP
    assert bool(client.calls) is disconnected


async def test_an_asleep_tenant_raises_no_alert_and_has_no_client():
    root, dropped = ModelRoot(), []
    root.replicas, root.pods = dict.fromkeys(COMPONENTS, 0), set()

    async def drop(uid: str) -> None:
        dropped.append(uid)

    means = fake_means(root)  # type: ignore[arg-type]
    object.__setattr__(means, "tenant_clients", SimpleNamespace(drop=drop))
    removed: list[str] = []
    object.__setattr__(means, "expiries", SimpleNamespace(remove_owner=removed.append))
    means.stores.set_desired(TENANT.uid, "desired")  # type: ignore[arg-type]
    found = body(sleep={})
    with pytest.raises(PhaseBlocked) as caught:
        await sleep.hold_sleep(means, parse_virtual_cluster(found), found, root.observe())
    assert (caught.value.reason, caught.value.needs_admin) == (wellknown.ASLEEP, False)
    assert means.stores.get_desired(TENANT.uid) is None
    assert removed == dropped == [TENANT.uid]
    assert root.calls == 0
