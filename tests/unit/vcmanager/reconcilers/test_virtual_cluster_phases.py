import pytest
import yaml

from clusterversions import catalog
from tenancy import wellknown
from tests.support.vcmanager.factories import RecordingClient, bundled, pod, wish, workload
from tests.support.vcmanager.phase_runs import NAMES, new_run, write
from vcmanager.phases import certificates, startup_order, tenant_bootstrap
from vcmanager.phases.waves import control_plane_change
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.plan import external_endpoint
from vcmanager.reconcilers.phase_run import PhaseDone, PhaseStalled, PhaseWaiting
from vcmanager.reconcilers.virtual_cluster_phases import PHASES
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects


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
        ("ReplaceOutdatedPods", "CheckAuthorities"),
        ("CheckAuthorities", "BootstrapTenant"),
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
        "CheckAuthorities": wellknown.CERTIFICATES_READY,
        "PlanAuthentication": wellknown.AUTHENTICATION_READY,
        "BootstrapTenant": wellknown.API_SERVER_READY,
        "ReportAuthentication": wellknown.AUTHENTICATION_READY,
        "ReconcileMetricsApi": wellknown.METRICS_READY,
        "WriteKubeconfigSecrets": wellknown.KUBECONFIG_SECRETS_READY,
    }


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


async def test_a_finished_control_plane_is_published(finished):
    run = new_run()
    assert await write(run) == PhaseDone()
    assert run.status.endpoint == "https://192.0.2.1:6443"
    assert run.status.version == "v1.36.0"


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


async def test_an_ended_authority_is_reported_after_all_else_was_written(finished):
    run = new_run()
    message = "The authority etcd ended."
    finished_secrets = certificates.build_secrets()
    finished_secrets.ended_message = message
    result = await write(run)
    assert isinstance(result, PhaseStalled)
    assert (result.condition, result.reason) == (wellknown.CERTIFICATES_READY, "AuthorityExpired")
    assert result.message == message
    assert run.status.get_condition(wellknown.CERTIFICATES_READY) is None
