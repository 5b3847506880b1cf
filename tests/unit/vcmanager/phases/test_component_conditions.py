"""Each component is judged by the workload that it is."""

from ipaddress import ip_network

from tests.support.vcmanager.factories import Recorder, fake_means, wish, workload
from vcmanager.phases.component_conditions import judge
from vcmanager.plan import component_status, control_plane
from vcmanager.plan.service_cidrs import Slice
from vcmanager.runtime.observed import Snapshot
from vcmanager.runtime.status import Report

PLAN = control_plane.plan(wish(metrics="managed"), Slice(ip_network("10.96.8.0/22")))


async def judged(plan):
    objects = {"StatefulSet": {}, "Deployment": {}}
    for each in (*PLAN.workloads, *PLAN.metrics):
        kind, name = each["kind"], each["metadata"]["name"]
        if kind in objects:
            objects[kind][name] = workload(name, ready=1, kind=kind)
    report = Report(generation=1, now="2026-03-01T12:00:00Z")
    await judge(fake_means(Recorder()), report, Snapshot(namespace=None, objects=objects), plan)
    report.conclude(held=None, is_stalled=False, is_deleting=False)
    return {each["type"]: each["status"] for each in report.document({})["conditions"]}


async def test_every_component_of_a_plan_has_a_condition():
    found = await judged(PLAN)
    assert found == dict.fromkeys([*component_status.CONDITIONS.values(), "Ready"], "True")


async def test_without_a_plan_what_is_there_is_judged():
    assert await judged(None) == await judged(PLAN)
