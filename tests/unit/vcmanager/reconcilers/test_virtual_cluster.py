from ipaddress import ip_network

import pytest

from kubeio import errors
from kubeio.controller.worker import RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import (
    TENANT,
    RecordedEventRows,
    RecordingClient,
    fake_means,
)
from vcmanager.phases import validation
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.reconcilers import virtual_cluster, virtual_cluster_deletion
from vcmanager.reconcilers.phase_run import PhaseDone, PhaseRun
from vcmanager.runtime import keys

KEY = keys.build_virtual_cluster_key(TENANT.namespace, TENANT.name)
SLICE = ServiceRange(ip_network("10.96.8.0/22"))
READY_STORE = {
    "type": wellknown.ETCD_READY,
    "status": "True",
    "reason": "Ready",
    "message": "etcd is ready, 1 of 1",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def cluster(**metadata):
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": TENANT.uid,
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": {"clusterVersionName": "v1.36"},
        "status": {"phase": "Running", "conditions": [READY_STORE]},
    }


def conditions(super_client):
    """Return the conditions of the only status that was written."""
    assert super_client.calls == [("apply", TENANT.name)]
    written = super_client.bodies[0]["status"]["conditions"]
    return {each["type"]: each for each in written}


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (errors.TooManyRequests("the server is busy"), "SuperClusterRefuses"),
        (errors.ServerError("the webhook is gone"), "SuperClusterRefuses"),
        (errors.AlreadyExists("the name is taken"), "SuperClusterRefuses"),
        (errors.Timeout("no answer"), "SuperClusterUnavailable"),
    ],
)
async def test_what_the_super_cluster_refuses_is_reported_and_tried_again_later(problem, reason):
    super_client, notes = RecordingClient({TENANT.name: cluster()}), RecordedEventRows()
    super_client.problems["get", TENANT.root] = problem
    with pytest.raises(type(problem)):
        await virtual_cluster.reconcile_virtual_cluster(
            fake_means(super_client, recorder=notes), KEY
        )
    found = conditions(super_client)
    ready = found[wellknown.READY]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", reason, str(problem))
    assert found[wellknown.ETCD_READY]["message"] == READY_STORE["message"], "still true"
    assert super_client.bodies[0]["status"]["phase"] == "Running"
    assert notes.reasons == [reason]


async def test_the_first_problem_counts_when_it_cannot_be_reported_either():
    super_client = RecordingClient({TENANT.name: cluster()})
    super_client.problems["get", TENANT.root] = errors.ServerError("first")
    super_client.problems["apply", TENANT.name] = errors.Timeout("second")
    with pytest.raises(errors.ServerError, match="first"):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)


async def test_a_conflict_is_tried_again_without_a_word():
    super_client = RecordingClient({TENANT.name: cluster()})
    super_client.problems["get", TENANT.root] = errors.Conflict("another write came first")
    with pytest.raises(errors.Conflict):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    assert super_client.calls == []


@pytest.mark.parametrize(
    "problem", [KeyError("k"), TypeError("t"), ValueError("v"), IndexError("i"), AttributeError()]
)
async def test_a_shape_that_is_unexpected_is_reported_without_its_content(monkeypatch, problem):
    async def fetch_wish(*_, is_new):
        raise problem

    monkeypatch.setattr(validation, "fetch_plan_input", fetch_wish)
    super_client = RecordingClient({TENANT.name: cluster()})
    with pytest.raises(type(problem)):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    ready = conditions(super_client)[wellknown.READY]
    assert ready["reason"] == "InternalError"
    assert "log of vc-manager has the details" in ready["message"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("services is forbidden: exceeded quota: small", wellknown.QUOTA_EXCEEDED),
        ("services is forbidden: a policy says no", "Forbidden"),
    ],
)
async def test_a_quota_that_refuses_an_object_has_a_reason_of_its_own(monkeypatch, said, reason):
    async def fetch_plan_input(*_, is_new):
        raise errors.Forbidden(said)

    monkeypatch.setattr(validation, "fetch_plan_input", fetch_plan_input)
    super_client = RecordingClient({TENANT.name: cluster()})
    await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    ready = conditions(super_client)[wellknown.READY]
    assert ready["reason"] == reason
    remedy = "; raise the quota, or free a part of it" if "quota" in said else ""
    assert ready["message"] == f"{said}{remedy}"


async def test_a_deletion_is_one_whatever_its_status_is(monkeypatch):
    """Otherwise a forged phase would release it and leave its objects behind."""
    torn_down = []

    async def act(_, __, tenant):
        torn_down.append(tenant)

    monkeypatch.setattr(virtual_cluster_deletion, "delete_tenant", act)
    body = {**cluster(deletionTimestamp="now"), "status": {"phase": "Deleting"}}
    super_client = RecordingClient({TENANT.name: body})
    await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    assert torn_down == [TENANT]


async def test_a_deletion_that_is_refused_reports_it_too(monkeypatch):
    async def act(*_):
        raise errors.TooManyRequests("a budget says no")

    monkeypatch.setattr(virtual_cluster_deletion, "delete_tenant", act)
    super_client = RecordingClient({TENANT.name: cluster(deletionTimestamp="now")})
    with pytest.raises(errors.TooManyRequests):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    found = conditions(super_client)
    assert found[wellknown.READY]["message"] == "a budget says no"
    assert found["Reconciling"]["reason"] == "Deleting"


@pytest.mark.parametrize(
    ("metrics", "due", "after"),
    [("True", 9000.0, 9000.0), ("False", 9000.0, 30.0), ("False", 1.0, 1.0)],
)
async def test_metrics_that_do_not_work_are_looked_at_again_soon(monkeypatch, metrics, due, after):
    async def run_phases(*_):
        return PhaseDone()

    async def set_component_conditions(run):
        run.status.set_condition(wellknown.ETCD_READY, "True", "Ready", "it is")
        run.status.set_condition(wellknown.METRICS_READY, metrics, "Whatever", "so it is")

    monkeypatch.setattr(virtual_cluster, "run_phases", run_phases)
    monkeypatch.setattr(PhaseRun, "set_component_conditions", set_component_conditions)
    monkeypatch.setattr(PhaseRun, "get_requeue_delay", lambda _: due)
    super_client = RecordingClient({TENANT.name: cluster()})
    assert await virtual_cluster.reconcile_virtual_cluster(
        fake_means(super_client), KEY
    ) == RequeueAfter(after)
    assert conditions(super_client)[wellknown.READY]["status"] == "True"
