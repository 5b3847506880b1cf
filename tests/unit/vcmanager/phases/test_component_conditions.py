"""Each component is judged by the workload that it is."""

from ipaddress import ip_network

from tests.support.vcmanager.factories import RecordingClient, fake_means, wish, workload
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
