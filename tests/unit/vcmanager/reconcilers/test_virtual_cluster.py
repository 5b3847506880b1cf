from ipaddress import ip_network
from types import SimpleNamespace

import pytest

from kubeio import errors
from kubeio.controller.worker import RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import (
    NOW,
    TENANT,
    RecordedEventRows,
    RecordingClient,
    fake_means,
    pod,
    wish,
    workload,
)
from vcmanager.phases import certificates, metrics_server, validation
from vcmanager.plan import control_plane
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.reconcilers import virtual_cluster, virtual_cluster_deletion
from vcmanager.runtime import keys
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

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
async def test_what_the_super_cluster_refuses_is_said_and_tried_again_later(problem, reason):
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


async def test_the_first_problem_counts_when_it_cannot_be_said_either():
    super_client = RecordingClient({TENANT.name: cluster()})
    super_client.problems["get", TENANT.root] = errors.ServerError("first")
    super_client.problems["apply", TENANT.name] = errors.Timeout("second")
    with pytest.raises(errors.ServerError, match="first"):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)


async def test_a_conflict_is_tried_again_without_a_word():
    super_client = RecordingClient({TENANT.name: cluster()})
    super_client.problems["get", TENANT.root] = errors.Conflict("somebody wrote")
    with pytest.raises(errors.Conflict):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    assert super_client.calls == []


@pytest.mark.parametrize(
    "problem", [KeyError("k"), TypeError("t"), ValueError("v"), IndexError("i"), AttributeError()]
)
async def test_a_shape_that_nobody_expected_is_said_without_its_content(monkeypatch, problem):
    async def fetch_wish(*_, is_new):
        raise problem

    monkeypatch.setattr(validation, "fetch_plan_input", fetch_wish)
    super_client = RecordingClient({TENANT.name: cluster()})
    with pytest.raises(type(problem)):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    ready = conditions(super_client)[wellknown.READY]
    assert ready["reason"] == "InternalError"
    assert f"({type(problem).__name__}); its log says where" in ready["message"]


async def test_a_deletion_is_one_whatever_its_status_says(monkeypatch):
    """Or a phase that somebody wrote would let it go with everything left behind."""
    torn_down = []

    async def act(_, __, tenant):
        torn_down.append(tenant)

    monkeypatch.setattr(virtual_cluster_deletion, "delete_tenant", act)
    body = {**cluster(deletionTimestamp="now"), "status": {"phase": "Deleting"}}
    super_client = RecordingClient({TENANT.name: body})
    await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    assert torn_down == [TENANT]


async def test_a_deletion_that_is_refused_says_so_too(monkeypatch):
    async def act(*_):
        raise errors.TooManyRequests("a budget says no")

    monkeypatch.setattr(virtual_cluster_deletion, "delete_tenant", act)
    super_client = RecordingClient({TENANT.name: cluster(deletionTimestamp="now")})
    with pytest.raises(errors.TooManyRequests):
        await virtual_cluster.reconcile_virtual_cluster(fake_means(super_client), KEY)
    found = conditions(super_client)
    assert found[wellknown.READY]["message"] == "a budget says no"
    assert found["Reconciling"]["reason"] == "Deleting"


def walk(super_client, snapshot):
    report = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    made = virtual_cluster._PhaseRun(fake_means(super_client), cluster(), report)
    made._snapshot = snapshot
    return made


async def make(made):
    wanted = wish()
    return await made._write_objects(
        wanted, control_plane.build_plan(wanted, SLICE), {"metadata": {}}, SLICE
    )


async def test_nothing_is_written_while_the_store_would_be_split():
    super_client = RecordingClient()
    etcd = workload("etcd", replicas=3)
    etcd["spec"]["template"]["spec"] = {"containers": [{"args": []}]}
    snapshot = ObservedObjects(namespace=None, objects={"StatefulSet": {"etcd": etcd}})
    with pytest.raises(PhaseBlocked) as caught:
        await make(walk(super_client, snapshot))
    assert caught.value.reason == "EtcdReplicasChanged"
    assert super_client.calls == []


class FinishedObjects:
    """Stands where all objects are as they should be."""

    written_count = 0

    def __init__(self, *_):
        pass

    async def write_services(self, _plan):
        return {"spec": {"clusterIP": "10.96.0.9"}}

    async def write_mounted(self, *_):
        pass

    async def write_workloads(self, _plan):
        pass

    async def delete_unwanted(self, _kept):
        pass

    @staticmethod
    def get_service_address(service):
        return service["spec"]["clusterIP"]


@pytest.mark.parametrize("trouble", ["the tenant does not answer", "there is no address"])
async def test_pods_are_replaced_while_something_else_is_waited_for(monkeypatch, trouble):
    async def create_roots(*_):
        return None

    async def external(*_):
        return None

    async def enter(*_):
        if trouble == "the tenant does not answer":
            raise PhaseBlocked("Unreachable", trouble)

    material = SimpleNamespace(next_renewal=NOW, renewed_secrets=(), secrets=(), validities={})
    monkeypatch.setattr(certificates, "create_authorities", create_roots)
    monkeypatch.setattr(certificates, "build_secrets", lambda *_: material)
    monkeypatch.setattr(virtual_cluster, "OwnedObjects", FinishedObjects)
    monkeypatch.setattr(virtual_cluster._PhaseRun, "_find_external_address", external)
    monkeypatch.setattr(virtual_cluster._PhaseRun, "_bootstrap_tenant", enter)
    api = workload("apiserver", ready=1, updateRevision="new")
    api["spec"]["updateStrategy"] = {"type": "OnDelete"}
    old = pod("apiserver-0", "apiserver", conditions=[{"type": "Ready", "status": "True"}])
    objects = {"StatefulSet": {"apiserver": api}, "Pod": {"apiserver-0": old}}
    super_client = RecordingClient()
    with pytest.raises(PhaseBlocked):
        await make(walk(super_client, ObservedObjects(namespace=None, objects=objects)))
    assert super_client.calls == [("delete", "apiserver-0")]


@pytest.fixture
def as_they_should_be(monkeypatch):
    """Everything of a control plane is there; return who was asked to see to the metrics."""
    asked = []

    async def create_roots(*_):
        return None

    async def external(*_):
        return ApiAddress(server="https://192.0.2.1:6443")

    async def enter(*_):
        return "the tenant"

    async def act(client, *_, **__):
        asked.append(client)

    material = SimpleNamespace(
        next_renewal=NOW, renewed_secrets=(), secrets=(), validities={}, serving=b""
    )
    monkeypatch.setattr(certificates, "create_authorities", create_roots)
    monkeypatch.setattr(certificates, "build_secrets", lambda *_: material)
    monkeypatch.setattr(virtual_cluster, "OwnedObjects", FinishedObjects)
    monkeypatch.setattr(virtual_cluster._PhaseRun, "_find_external_address", external)
    monkeypatch.setattr(virtual_cluster._PhaseRun, "_bootstrap_tenant", enter)
    monkeypatch.setattr(metrics_server, "reconcile_metrics_api", act)
    return asked


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_new_tenant_is_ready_before_anybody_looks_at_its_metrics(as_they_should_be, is_new):
    wanted = wish(metrics="managed", is_new=is_new)
    made = walk(RecordingClient(), ObservedObjects(namespace=None))
    await made._write_objects(
        wanted, control_plane.build_plan(wanted, SLICE), {"metadata": {}}, SLICE
    )
    assert as_they_should_be == ([] if is_new else ["the tenant"])


async def test_a_tenant_that_cannot_be_entered_yet_is_asked_for_no_metrics(
    as_they_should_be, monkeypatch
):
    async def enter(*_):
        return None

    monkeypatch.setattr(virtual_cluster._PhaseRun, "_bootstrap_tenant", enter)
    await make(walk(RecordingClient(), ObservedObjects(namespace=None)))
    assert as_they_should_be == []


@pytest.mark.parametrize(
    ("metrics", "due", "after"),
    [("True", 9000.0, 9000.0), ("False", 9000.0, 30.0), ("False", 1.0, 1.0)],
)
async def test_metrics_that_do_not_work_are_looked_at_again_soon(monkeypatch, metrics, due, after):
    async def run(_):
        return due

    async def judge(self):
        self._report.set_condition(wellknown.ETCD_READY, "True", "Ready", "it is")
        self._report.set_condition(wellknown.METRICS_READY, metrics, "Whatever", "so it is")

    monkeypatch.setattr(virtual_cluster._PhaseRun, "run_phases", run)
    monkeypatch.setattr(virtual_cluster._PhaseRun, "set_component_conditions", judge)
    super_client = RecordingClient({TENANT.name: cluster()})
    assert await virtual_cluster.reconcile_virtual_cluster(
        fake_means(super_client), KEY
    ) == RequeueAfter(after)
    assert conditions(super_client)[wellknown.READY]["status"] == "True"
