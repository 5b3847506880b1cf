"""Each component is judged by the workload that it is."""

from ipaddress import ip_network
from typing import Any

import pytest

from tests.support.vcmanager.factories import RecordingClient, fake_means, pod, wish, workload
from vcmanager.phases.component_conditions import set_component_conditions
from vcmanager.plan import component_status, control_plane
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

PLAN = control_plane.build_plan(wish(metrics="managed"), ServiceRange(ip_network("10.96.8.0/22")))


async def judged(plan):
    objects = {"StatefulSet": {}, "Deployment": {}}
    for each in (*PLAN.workloads, *PLAN.metrics):
        kind, name = each["kind"], each["metadata"]["name"]
        if kind in objects:
            objects[kind][name] = workload(name, ready=1, kind=kind)
    report = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    await set_component_conditions(
        fake_means(RecordingClient()),
        report,
        ObservedObjects(namespace=None, objects=objects),
        plan,
    )
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    return {each["type"]: each["status"] for each in report.build_status({})["conditions"]}


async def test_every_component_of_a_plan_has_a_condition():
    found = await judged(PLAN)
    assert found == dict.fromkeys(
        [*component_status.COMPONENT_CONDITIONS.values(), "Ready"], "True"
    )


async def test_without_a_plan_what_is_there_is_judged():
    assert await judged(None) == await judged(PLAN)


NO_CLASS = "no persistent volumes available for this claim and no storage class is set"


class EventsBySelector(RecordingClient):
    """Answers lists of Events by their field selector, and remembers the selectors."""

    def __init__(self, events: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__()
        self.events = events
        self.selectors: list[str] = []

    async def list(self, _resource: Any, **options: Any) -> dict[str, Any]:
        self.selectors.append(options["field_selector"])
        return {"items": self.events.get(options["field_selector"], [])}


@pytest.mark.parametrize("message", ["pod has unbound PersistentVolumeClaims", "Insufficient cpu"])
async def test_events_of_claims_are_read_for_a_pod_that_waits_for_them(message):
    """The Event of a claim without any StorageClass is no warning."""
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": message}
    event = {
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data-etcd-0"},
        "reason": "FailedBinding",
        "message": NO_CLASS,
        "lastTimestamp": "2026-03-01T12:00:00Z",
    }
    client = EventsBySelector({"reason=FailedBinding": [event]})
    namespace = {"metadata": {"name": "root", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    objects = {
        "StatefulSet": {"etcd": workload("etcd")},
        "Pod": {"etcd-0": pod("etcd-0", "etcd", conditions=[condition])},
    }
    report = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    snapshot = ObservedObjects(namespace=namespace, objects=objects)
    await set_component_conditions(fake_means(client), report, snapshot, None)
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    (found,) = [
        each
        for each in report.build_status({})["conditions"]
        if each["type"] == component_status.COMPONENT_CONDITIONS["etcd"]
    ]
    if "Claims" in message:
        assert (found["reason"], NO_CLASS in found["message"]) == ("NoStorageClass", True)
        assert client.selectors == ["type=Warning", "reason=FailedBinding"]
    else:
        assert found["reason"] == "FailedScheduling"
        assert client.selectors == []
