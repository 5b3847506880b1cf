"""A run of the phases of one tenant, planned and without objects."""

from ipaddress import ip_network
from types import SimpleNamespace

import pytest

from tests.support.vcmanager.factories import NOW, TENANT, RecordingClient, fake_means, wish
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
from vcmanager.pki import inventory
from vcmanager.plan import control_plane, external_endpoint
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.reconcilers import network_phases
from vcmanager.reconcilers.phase_run import PhaseRun, run_phases
from vcmanager.reconcilers.virtual_cluster_phases import PHASES
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

NAMES = [phase.name for phase in PHASES]
KUBECONFIG = {"metadata": {"name": f"{inventory.MANAGER}-kubeconfig"}}
SERVICE_RANGE = ServiceRange(ip_network("10.96.8.0/22"))


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

    async def advance_rotations(_context, _wish, issued, _body, **_):
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
        ended_message="",
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
