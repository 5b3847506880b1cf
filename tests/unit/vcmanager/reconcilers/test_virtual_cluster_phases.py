from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from types import SimpleNamespace

import pytest
import yaml

from clusterversions import catalog
from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import (
    NOW,
    TENANT,
    RecordingClient,
    bundled,
    fake_means,
    pod,
    wish,
    workload,
)
from vcmanager.phases import (
    certificate_requests,
    certificates,
    metrics_server,
    startup_order,
    sync_rules,
    tenant_bootstrap,
)
from vcmanager.phases.rotations import authority_rotation
from vcmanager.phases.rotations.authority_rotation import Rotations
from vcmanager.phases.waves import control_plane_change
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.pki import inventory
from vcmanager.plan import control_plane, external_endpoint
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.reconcilers import network_phases
from vcmanager.reconcilers.phase_run import (
    Phase,
    PhaseDone,
    PhaseRun,
    PhaseStalled,
    PhaseWaiting,
    run_phases,
)
from vcmanager.reconcilers.virtual_cluster_phases import PHASES
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import RESYNC_SECONDS
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

SERVICE_RANGE = ServiceRange(ip_network("10.96.8.0/22"))
NAMES = [phase.name for phase in PHASES]
KUBECONFIG = {"metadata": {"name": f"{inventory.MANAGER}-kubeconfig"}}


def new_run(super_client=None, observed=None, plan_input=None):
    """Return a run in which every phase before the writes is done."""
    body = {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {"phase": "Running"},
    }
    run = PhaseRun(
        fake_means(super_client or RecordingClient()),
        body,
        ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z"),
        observed=observed or ObservedObjects(namespace=None),
    )
    run.plan_input = plan_input or wish()
    run.service_range = SERVICE_RANGE
    run.super_range = ip_network("10.96.0.0/16")
    run.plan = control_plane.build_plan(run.plan_input, SERVICE_RANGE)
    run.namespace = {"metadata": {}}
    return run


async def write(run):
    """Run the phases after the plan was made."""
    return await run_phases(run, PHASES[NAMES.index("CheckEtcdMembers") :])


def test_every_phase_has_a_name_of_its_own():
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("ParseCluster", "ObserveObjects"),
        ("DryRunBundles", "AddFinalizers"),
        ("AddFinalizers", "EnsureRootNamespace"),
        ("EnsureRootNamespace", "EnsureServiceRange"),
        ("DecideHostname", "BuildPlan"),
        ("CheckEtcdMembers", "WriteServices"),
        ("WriteNetworkPolicies", "WriteWorkloads"),
        ("BootstrapTenant", "ProbeEnforcement"),
        ("WriteServices", "IssueCertificates"),
        ("IssueCertificates", "AdmitChange"),
        ("AdmitChange", "WriteMounted"),
        ("WriteMounted", "WriteWorkloads"),
        ("WriteWorkloads", "ReplaceOutdatedPods"),
        ("ReplaceOutdatedPods", "BootstrapTenant"),
        ("BootstrapTenant", "ReconcileMetricsApi"),
        ("ReconcileMetricsApi", "PublishEndpoint"),
        ("PublishEndpoint", "SettleRotations"),
    ],
)
def test_phases_have_this_order(first, then):
    assert NAMES.index(first) < NAMES.index(then)


def test_phases_report_conditions_of_the_manager():
    named = {phase.name: phase.condition for phase in PHASES if phase.condition != wellknown.READY}
    assert named == {
        "DecideHostname": wellknown.HOSTNAME_ACCEPTED,
        "IssueCertificates": wellknown.CERTIFICATES_READY,
        "PlanAuthentication": wellknown.AUTHENTICATION_READY,
        "BootstrapTenant": wellknown.API_SERVER_READY,
        "ReportAuthentication": wellknown.AUTHENTICATION_READY,
        "ReconcileMetricsApi": wellknown.METRICS_READY,
        "WriteKubeconfigSecrets": wellknown.KUBECONFIG_SECRETS_READY,
    }


class PhaseScript:
    """Phases that record their run, of which one ends as the test says."""

    def __init__(self, outcome):
        self.ran = []
        self.outcome = outcome

    def phases(self):
        return [
            Phase("first", wellknown.READY, self._phase("first", PhaseDone())),
            Phase("second", wellknown.ETCD_READY, self._phase("second", self.outcome)),
            Phase("third", wellknown.READY, self._phase("third", PhaseDone())),
        ]

    def _phase(self, name, outcome):
        async def run(_):
            self.ran.append(name)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return run


def outcome(kind, **fields):
    return kind(**{"condition": wellknown.ETCD_READY, "reason": "R", "message": "m", **fields})


@pytest.mark.parametrize(
    ("ends", "expected", "ran"),
    [
        pytest.param(PhaseDone(), PhaseDone(), 3, id="done"),
        pytest.param(
            outcome(PhaseWaiting, retry_after=2.0),
            outcome(PhaseWaiting, retry_after=2.0),
            2,
            id="waiting",
        ),
        pytest.param(
            PhaseBlocked("R", "m"), outcome(PhaseWaiting, retry_after=10.0), 2, id="helper waits"
        ),
        pytest.param(
            PhaseBlocked("R", "m", retry_after=0.5, condition=wellknown.DNS_READY),
            outcome(PhaseWaiting, retry_after=0.5, condition=wellknown.DNS_READY),
            2,
            id="helper names a condition",
        ),
        pytest.param(
            PhaseBlocked("R", "m", needs_admin=True, retry_after=60.0),
            outcome(PhaseStalled, retry_after=60.0),
            2,
            id="administrator needed",
        ),
        pytest.param(
            errors.Forbidden("quota"),
            PhaseWaiting(
                condition=wellknown.READY, reason="Forbidden", message="quota", retry_after=30.0
            ),
            2,
            id="forbidden",
        ),
    ],
)
async def test_phases_run_until_one_is_not_done(ends, expected, ran):
    script, run = PhaseScript(ends), new_run()
    assert await run_phases(run, script.phases()) == expected
    assert script.ran == ["first", "second", "third"][:ran]
    is_failure = isinstance(ends, errors.Forbidden)
    assert run.status.failing_conditions == ({wellknown.READY} if is_failure else set())


async def test_an_error_of_the_super_cluster_is_no_result():
    script = PhaseScript(errors.Conflict("another writer"))
    with pytest.raises(errors.Conflict):
        await run_phases(new_run(), script.phases())


@pytest.mark.parametrize(
    ("is_new", "seconds", "delay"),
    [
        (True, 5000, 1.0),
        (False, 5000, 5000.0),
        (False, -3, 1.0),
        (False, 10 * RESYNC_SECONDS, RESYNC_SECONDS),
    ],
)
def test_requeue_delay_follows_the_next_renewal(is_new, seconds, delay):
    run = new_run(plan_input=wish(is_new=is_new))
    run.secrets = SimpleNamespace(next_renewal=run.context.now() + timedelta(seconds=seconds))
    assert run.get_requeue_delay() == delay


async def test_nothing_is_written_while_the_store_would_be_split():
    super_client = RecordingClient()
    etcd = workload("etcd", replicas=3)
    etcd["spec"]["template"]["spec"] = {"containers": [{"args": []}]}
    observed = ObservedObjects(namespace=None, objects={"StatefulSet": {"etcd": etcd}})
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    result = await write(new_run(super_client, observed, plan_input=bundled(sample)))
    assert isinstance(result, PhaseStalled)
    assert (result.condition, result.reason) == (wellknown.READY, "EtcdReplicasChanged")
    assert super_client.calls == []


class FinishedObjects:
    """Stands in for `OwnedObjects` where every object is up to date."""

    written_count = 0

    def __init__(self, *_):
        pass

    is_unchanged = False

    async def write_additional(self, manifests):
        """Have the policies."""

    async def write_services(self, _plan):
        return {"spec": {"clusterIP": "10.96.0.9"}}

    async def write_mounted(self, *_, **__):
        pass

    async def write_role_bindings(self):
        pass

    async def write_workloads(self, _plan):
        pass

    async def delete_unwanted(self, _kept):
        pass

    @staticmethod
    def get_service_address(service):
        return service["spec"]["clusterIP"]


@pytest.fixture
def finished(monkeypatch):
    """A control plane with every object, and a tenant that answers.

    Returns the clients with which the metrics API was reconciled.
    """
    reconciled = []

    async def create_authorities(*_):
        return None

    async def connect_tenant(*_, **__):
        return "the tenant"

    async def bootstrap_tenant(*_, **__):
        return "v1.36.0"

    async def exchange(*_, **__):
        return None

    async def advance_rotations(_context, _wish, issued, _body):
        return issued, Rotations()

    async def no_problems(*_, **__):
        return []

    async def reconcile_metrics_api(client, *_, **__):
        reconciled.append(client)

    secrets = SimpleNamespace(
        next_renewal=NOW,
        replaced_ends=(),
        renewed_secrets=(),
        secrets=(KUBECONFIG,),
        validities={},
        serving=b"",
    )
    address = ApiAddress(server="https://192.0.2.1:6443")
    monkeypatch.setattr(certificates, "create_authorities", create_authorities)
    monkeypatch.setattr(authority_rotation, "advance_rotations", advance_rotations)
    monkeypatch.setattr(certificates, "build_secrets", lambda *_, **__: secrets)
    monkeypatch.setattr(external_endpoint, "find_external_address", lambda *_, **__: address)
    monkeypatch.setattr(network_phases, "OwnedObjects", FinishedObjects)
    monkeypatch.setattr(startup_order, "is_api_ready", lambda _: True)
    monkeypatch.setattr(tenant_bootstrap, "connect_tenant", connect_tenant)
    monkeypatch.setattr(tenant_bootstrap, "bootstrap_tenant", bootstrap_tenant)
    monkeypatch.setattr(certificate_requests, "exchange", exchange)
    monkeypatch.setattr(metrics_server, "reconcile_metrics_api", reconcile_metrics_api)
    monkeypatch.setattr(sync_rules, "apply_sync_rules", no_problems)
    return reconciled


async def test_a_finished_control_plane_is_published(finished):
    run = new_run()
    assert await write(run) == PhaseDone()
    assert run.status.endpoint == "https://192.0.2.1:6443"
    assert run.status.version == "v1.36.0"


@pytest.mark.parametrize(
    ("policies", "service_type", "lists"),
    [
        (True, "NodePort", 1),
        (True, "LoadBalancer", 1),
        (False, "NodePort", 1),
        (False, "LoadBalancer", 0),
    ],
)
async def test_nodes_are_listed_once_if_needed(
    finished, monkeypatch, policies, service_type, lists
):
    listed = []

    class NodeClient(RecordingClient):
        async def list(self, resource, **_):
            listed.append(resource.plural)
            return {"items": []}

    async def write_services(*_):
        return {"spec": {"clusterIP": "10.96.0.9", "type": service_type}}

    monkeypatch.setattr(FinishedObjects, "write_services", write_services)
    run = new_run(NodeClient())
    settings = replace(run.context.settings, network_policies=policies)
    run.context = replace(run.context, settings=settings)
    assert await write(run) == PhaseDone()
    assert listed.count("nodes") == lists


@pytest.mark.parametrize(
    ("trouble", "condition"),
    [("Unreachable", wellknown.API_SERVER_READY), ("EndpointPending", wellknown.READY)],
)
async def test_pods_are_replaced_while_a_later_phase_waits(
    finished, monkeypatch, trouble, condition
):
    async def bootstrap_tenant(*_, **__):
        if trouble == "Unreachable":
            raise PhaseBlocked("Unreachable", "the tenant does not answer")
        return "v1.36.0"

    async def admit_change(*_, **__):
        return ControlPlaneChange.NONE, "up to date"

    monkeypatch.setattr(control_plane_change, "admit_change", admit_change)
    monkeypatch.setattr(tenant_bootstrap, "bootstrap_tenant", bootstrap_tenant)
    monkeypatch.setattr(external_endpoint, "find_external_address", lambda *_, **__: None)
    api = workload("apiserver", ready=1, updateRevision="new")
    api["spec"]["updateStrategy"] = {"type": "OnDelete"}
    old = pod("apiserver-0", "apiserver", conditions=[{"type": "Ready", "status": "True"}])
    objects = {"StatefulSet": {"apiserver": api}, "Pod": {"apiserver-0": old}}
    super_client = RecordingClient()
    result = await write(new_run(super_client, ObservedObjects(namespace=None, objects=objects)))
    assert isinstance(result, PhaseWaiting)
    assert (result.condition, result.reason) == (condition, trouble)
    assert super_client.calls == [("delete", "apiserver-0")]


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_new_tenant_is_ready_before_its_metrics(finished, is_new):
    run = new_run(plan_input=wish(metrics="managed", is_new=is_new))
    assert await write(run) == PhaseDone()
    assert finished == ([] if is_new else ["the tenant"])


async def test_metrics_wait_for_a_ready_api_server(finished, monkeypatch):
    monkeypatch.setattr(startup_order, "is_api_ready", lambda _: False)
    assert await write(new_run()) == PhaseDone()
    assert finished == []
