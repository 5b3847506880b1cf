"""The metrics-server comes and goes, and nothing else waits for it."""

from ipaddress import ip_network

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means, wish, workload
from vcmanager.phases import metrics_server as phase
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.plan import control_plane
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime import object_metadata
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

SLICE = ServiceRange(ip_network("10.96.8.0/22"))
PLAN = control_plane.build_plan(wish(metrics="managed"), SLICE)
NONE = control_plane.build_plan(wish(), SLICE)
AVAILABLE = {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]}
AWAY = {"conditions": [{"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck"}]}


class JournalingTenant:
    """Stands for a tenant's API, and remembers what was written beside what was below."""

    def __init__(self, journal, *, status=None, problem=None, there=True):
        self.journal = journal
        self.status = status or {}
        self.problem = problem
        self.there = there

    async def apply(self, resource, body, **_):
        self._fail()
        self.journal.append(("apply", resource.kind))
        return {**body, "status": self.status}

    async def get(self, _resource, name, **_):
        self._fail()
        if not self.there:
            raise errors.NotFound("no")
        return {"metadata": {"name": name, "uid": "u", "labels": {wellknown.BOOTSTRAP: "true"}}}

    async def delete(self, resource, _name, **_):
        self._fail()
        self.journal.append(("delete", resource.kind))

    def _fail(self):
        if self.problem:
            raise self.problem


class JournalingSuper(RecordingClient):
    """The super cluster, whose writes stand in the same journal."""

    def __init__(self, journal):
        super().__init__()
        self.journal = journal

    def _write(self, verb, name, body):
        super()._write(verb, name, body)
        self.journal.append((f"super {verb}", body.get("kind", name)))


def snapshot(*objects):
    found = {}
    for each in objects:
        found.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    return ObservedObjects(namespace=None, objects=found)


def below(plan=PLAN):
    """Return the Service and the Deployment as they are in the root namespace."""
    marked = [object_metadata.add_metadata(each, TENANT, {}) for each in plan.metrics]
    return [{**each, "metadata": {**each["metadata"], "uid": "uid-below"}} for each in marked]


UP = workload("metrics-server", ready=1, kind="Deployment")


async def act(plan, found, *, inside=None, super_problem=None, **more):
    journal = []
    super_client = JournalingSuper(journal)
    for kind in ("apply", "delete"):
        if super_problem:
            super_client.problems[kind, "metrics-server"] = super_problem
    means = fake_means(super_client)
    report = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    await phase.reconcile_metrics_api(
        inside or JournalingTenant(journal, **more),
        means,
        plan,
        build=OwnedObjects(means, wish(metrics="managed"), found),
        snapshot=found,
        authority=b"authority",
        report=report,
    )
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    listed = report.build_status({})["conditions"]
    return journal, {each["type"]: each for each in listed}, report


async def test_its_rights_come_before_it_and_its_group_when_it_answers():
    journal, said, _ = await act(PLAN, snapshot(UP), status=AVAILABLE)
    kinds = [kind for verb, kind in journal if verb == "apply"]
    assert kinds[-1] == "APIService"
    started = journal.index(("super apply", "Deployment"))
    assert journal.index(("apply", "RoleBinding")) < started
    assert journal.index(("apply", "ClusterRoleBinding")) < started
    assert journal.index(("super apply", "Service")) < journal.index(("apply", "Service"))
    assert wellknown.METRICS_READY not in said, "whether its pods work is judged elsewhere"


@pytest.mark.parametrize("found", [snapshot(), snapshot({**UP, "status": {}})])
async def test_while_no_one_answers_there_is_no_group(found):
    journal, said, _ = await act(PLAN, found)
    assert ("apply", "APIService") not in journal
    assert ("delete", "APIService") in journal
    assert ("apply", "EndpointSlice") in journal
    assert wellknown.METRICS_READY not in said


@pytest.mark.parametrize(
    ("status", "reason"), [({}, "Registering"), (AWAY, "FailedDiscoveryCheck")]
)
async def test_what_the_tenants_api_server_does_not_reach_is_not_ready(status, reason):
    _, said, report = await act(PLAN, snapshot(UP), status=status)
    found = said[wellknown.METRICS_READY]
    assert (found["status"], found["reason"]) == ("False", reason)
    assert said[wellknown.READY]["status"] == "True"
    assert not report.is_complete


TAKEN = errors.Invalid("taken", details={"causes": [{"field": "spec.clusterIPs[0]"}]})


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"super_problem": TAKEN}, "AddressTaken"),
        ({"super_problem": errors.Invalid("no such field")}, "InvalidTemplate"),
        ({"super_problem": errors.Forbidden("a quota")}, "Forbidden"),
        ({"problem": errors.Forbidden("a webhook")}, "Forbidden"),
        ({"problem": errors.Invalid("field is immutable")}, "Refused"),
        ({"problem": errors.Conflict("another UID")}, "Refused"),
        ({"problem": errors.ServerError("a webhook is away")}, "Refused"),
        ({"problem": errors.Timeout("slow on purpose")}, "Unreachable"),
        ({"problem": errors.NotSent("nobody")}, "Unreachable"),
    ],
)
async def test_nothing_that_goes_wrong_here_goes_further(trouble, reason):
    _, said, report = await act(PLAN, snapshot(UP), **trouble)
    found = said[wellknown.METRICS_READY]
    assert (found["status"], found["reason"]) == ("False", reason)
    assert found["message"]
    assert said[wellknown.READY]["status"] == "True"
    assert report.failing_conditions == {wellknown.METRICS_READY}
    assert report.is_settled
    assert not report.is_complete


async def test_switched_off_it_leaves_the_tenant_and_then_gives_its_address_back():
    service, deployment = below()
    journal, said, _ = await act(NONE, snapshot(service, deployment))
    kinds = {kind for verb, kind in journal if verb == "delete"}
    assert kinds == {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "EndpointSlice",
        "RoleBinding",
        "Service",
    }
    assert journal[0] == ("delete", "APIService")
    assert journal[-2:] == [("super delete", "metrics-server")] * 2
    assert wellknown.METRICS_READY not in said


async def test_a_tenant_that_does_not_let_go_keeps_the_address_and_is_asked_again():
    service, _ = below()
    journal, said, report = await act(
        NONE, snapshot(service), problem=errors.Forbidden("a webhook says no")
    )
    assert ("super delete", "metrics-server") not in journal
    assert said[wellknown.METRICS_READY]["reason"] == "Forbidden"
    assert not report.is_complete


async def test_a_tenant_that_never_had_one_is_not_asked():
    for found in (
        snapshot(),
        snapshot({"kind": "Service", "metadata": {"name": "metrics-server"}}),
    ):
        journal, said, report = await act(NONE, found, problem=errors.Timeout("asked"))
        assert journal == []
        assert wellknown.METRICS_READY not in said
        assert report.is_complete


def test_what_is_written_later_or_goes_last_outlives_the_pruning():
    service, deployment = below()
    assert list(phase.list_kept_objects(PLAN, snapshot(service, deployment))) == list(PLAN.metrics)
    assert phase.list_kept_objects(NONE, snapshot(service, deployment)) == [service, deployment]
    assert phase.list_kept_objects(NONE, snapshot(deployment)) == []
    strangers = {"kind": "Service", "metadata": {"name": "metrics-server"}}
    assert phase.list_kept_objects(NONE, snapshot(strangers, deployment)) == [strangers]
    assert phase.list_kept_objects(NONE, snapshot()) == []


async def test_pruning_leaves_what_answers_in_the_tenant_for_later():
    service, deployment = below()
    super_client, found = RecordingClient(), snapshot(service, deployment)
    build = OwnedObjects(fake_means(super_client), wish(), found)
    for plan in (NONE, PLAN):
        await build.delete_unwanted(phase.list_kept_objects(plan, found))
        assert super_client.calls == []
    alone = snapshot(deployment)
    await OwnedObjects(fake_means(super_client), wish(), alone).delete_unwanted(
        phase.list_kept_objects(NONE, alone)
    )
    assert super_client.calls == [("delete", "metrics-server")]


async def test_a_refusal_of_a_phase_is_no_refusal_of_the_tenant():
    class Refusing:
        async def write_additional(self, _):
            raise PhaseBlocked("SomeReason", "some words", needs_admin=True)

    report = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    await phase.reconcile_metrics_api(
        JournalingTenant([]),
        fake_means(RecordingClient()),
        PLAN,
        build=Refusing(),
        snapshot=snapshot(),
        authority=b"",
        report=report,
    )
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    found = {each["type"]: each for each in report.build_status({})["conditions"]}
    assert found[wellknown.METRICS_READY]["message"] == "some words"
    assert "Stalled" not in found
