"""Alerts about reconciles, certificates, agents and the manager fire over what our code tells.

Those about the syncer's work are in `tests/integration/syncer/test_alerts.py`, with real servers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.api.leader_election import LeaderElector
from kubeio.cache.cache_budget import CacheBudget
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.controller.worker import Done, Worker
from syncer.safety.cache_limits import build_cache_limits
from syncer.tenants.metrics import TargetCounts, TenantCounts
from telemetry import metrics
from tenancy import wellknown
from tenancy.ownership import Tenant
from tests.support.alerts import firing, rules, scraped
from tests.support.memapi import clusters
from tests.support.memapi.served import Served
from vcmanager.pki import authority, checks
from vcmanager.runtime.certificate_expiry import CertificateExpiries, CertificateValidity
from vcmanager.runtime.etcd_stores import DesiredStore, Member, StoreRecords, StoreReport
from vcmanager.runtime.keys import AGENT_TRUST_KEY
from vcmanager.runtime.snapshot_schedules import SnapshotSchedules
from vnagent.authz.client_identity import ClientIdentity
from vnagent.protocol.errors import RefusalReason
from vnagent.protocol.routes import Route, RouteVerb
from vnagent.server import audit
from vnagent.server.audit import RequestAudit
from vnagent.stream.stream_states import StreamEnd

ALERT = "VirtualCluster{}".format


def test_no_series_means_no_running_component():
    assert set(firing(scraped(""))) == {ALERT("SyncerDown"), ALERT("ManagerDown")}


@pytest.mark.parametrize(
    ("lease", "alert"),
    [(wellknown.SYNCER, ALERT("SyncerDown")), (wellknown.MANAGER, ALERT("ManagerDown"))],
)
async def test_a_lease_without_a_holder(lease, alert):
    server = Served(clusters.fresh("leases", "10.96.0.0/16", accounts=False))
    async with server.running(), Client(server.endpoint) as client:
        held = LeaderElector(client, namespace="default", name=lease, identity="one")

        async def scope():
            return firing(scraped())

        assert alert not in await held.run(scope)
    assert alert in firing(scraped())


@pytest.mark.parametrize("name", [wellknown.SYNCER, wellknown.MANAGER])
@pytest.mark.parametrize(("share", "fires"), [(0.0, False), (0.05, False), (0.3, True)])
async def test_reconciles_that_fail(name, share, fires):
    failed = errors.Unavailable("no answer")

    async def reconcile(key):
        if int(key) < share * 100:
            raise failed
        return Done()

    queue = FairQueue(QueueOptions(name=name), group=lambda _: "g")
    worker = Worker(queue, reconcile, name=name)
    before = scraped()
    for number in range(100):
        queue.add(str(number))
        key = queue.take()  # on a slow machine one that failed is back already
        await worker.process_key(key)
        queue.done(key)
    found = firing(before, scraped()).get(ALERT("ReconcileErrors"), [])
    assert (name in {alert.labels["controller"] for alert in found}) is fires


def leaf(age: timedelta, lifetime: timedelta) -> CertificateValidity:
    """Return the span of a certificate that was really made some time ago."""
    began = datetime.now(UTC) - age
    root = authority.make_authority("root", now=began)
    subject = authority.CertificateSubject(common_name="x", usages=frozenset({"client"}))
    pair = authority.make_leaf(root, subject, lifetime=lifetime, now=began)
    return CertificateValidity(checks.get_expiry(pair), checks.compute_renewal(pair))


def day(count: float) -> timedelta:
    return timedelta(days=count)


@pytest.mark.parametrize(
    ("span", "fires"),
    [
        (leaf(day(10), day(90)), False),
        (leaf(day(70), day(90)), False),  # late, and there is time
        (leaf(day(86), day(90)), True),
        (leaf(day(0.5), day(1)), False),  # short, and not due yet
        (leaf(day(0.8), day(1)), True),
        (CertificateValidity(datetime.now(UTC) + day(400)), False),
        (CertificateValidity(datetime.now(UTC) + day(3)), True),  # an authority
    ],
)
def test_a_certificate_that_was_not_renewed(span, fires):
    expiries = CertificateExpiries()
    name = "apiserver-ca" if span.renewal else "root-ca"
    well = (
        leaf(day(1), day(90)) if span.renewal else CertificateValidity(datetime.now(UTC) + day(400))
    )
    expiries.set_validities("well", {name: well})
    expiries.set_validities("ill", {name: span})
    try:
        found = firing(scraped()).get(ALERT("CertificateExpiring"), [])
        assert [alert.labels["certificate"] for alert in found] == [name] * fires
        expiries.remove_owner("ill")
        assert ALERT("CertificateExpiring") not in firing(scraped())
    finally:
        expiries.remove_owner("well")


@pytest.mark.parametrize(
    ("ends", "fires"),
    [
        ([StreamEnd.COMPLETE] * 10, False),
        ([StreamEnd.COMPLETE] * 9 + [RefusalReason.KUBELET_DOWN], False),
        (
            [StreamEnd.COMPLETE] * 7
            + [RefusalReason.KUBELET_DOWN, RefusalReason.KUBELET_DENIES, StreamEnd.KUBELET_LOST],
            True,
        ),
        (
            [StreamEnd.COMPLETE] * 7
            + [RefusalReason.API_DOWN, RefusalReason.API_BUSY, RefusalReason.API_DENIES],
            True,
        ),
        (["kubelet_refused"] * 10, False),  # the container has not started, says the kubelet
        ([RefusalReason.NOT_FOUND] * 10, False),
        ([], False),
    ],
)
def test_an_agent_whose_kubelet_fails(ends, fires):
    before = scraped(instance="node-1")
    for end in ends:
        session = RequestAudit(
            ClientIdentity("uid", "key", datetime.now(UTC)),
            route=Route(verb=RouteVerb.LOGS, method="GET"),
        )
        session.result = str(end)
        audit.write_audit_record(session)
    found = firing(before, scraped(instance="node-1")).get(ALERT("AgentFailing"), [])
    assert [alert.labels["instance"] for alert in found] == ["node-1"] * fires


class CountedTarget:
    """A target as far as it is counted."""

    def __init__(self, *, ready=True, problem="", held=False, behind=""):
        self.is_ready, self.problem, self.is_held = ready, problem, held
        self.watch_problem = behind

    @property
    def pod_loss_guard(self):
        return self


@pytest.mark.parametrize(
    ("target", "condition"),
    [
        (CountedTarget(), ""),
        (CountedTarget(ready=False), "not_connected"),
        (CountedTarget(behind="pods are not watched: 403"), "not_connected"),
        (CountedTarget(problem="silent"), "unreachable"),
        (CountedTarget(held=True), "losses_held"),
    ],
)
def test_another_super_cluster_in_trouble(target, condition):
    counts = TargetCounts({"c2": target}, lambda: 1)
    found = firing(scraped()).get(ALERT("TargetInTrouble"), [])
    assert [alert.labels["condition"] for alert in found] == [condition] * bool(condition)
    assert counts


class CountedConnection:
    """A tenant's connection as far as its state is counted."""

    def __init__(self, *, is_store_full: bool) -> None:
        self.is_ready, self.is_store_full = True, is_store_full
        self.problem = self.refused_writes_problem = ""
        self.holds_deletes = False
        self.tenant = Tenant(name="one", namespace="default", uid="u", root="one")
        self.cache_budget = CacheBudget(build_cache_limits(2**20))


@pytest.mark.parametrize("is_full", [False, True])
def test_a_tenant_whose_store_is_full(is_full):
    connections = {"one": CountedConnection(is_store_full=is_full)}
    counts = TenantCounts(
        connections, lambda: 1, count_suspended=lambda: 0, count_too_large=lambda: 0
    )
    assert (ALERT("StoreFull") in firing(scraped())) is is_full
    assert counts


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_rollout_that_has_stopped(is_stopped):
    metrics.set_rollout("v1.36", {"waiting": 3, "failed": int(is_stopped)}, is_stopped=is_stopped)
    try:
        found = firing(scraped()).get(ALERT("RolloutStopped"), [])
        assert [alert.labels["cluster_version"] for alert in found] == ["v1.36"] * is_stopped
    finally:
        metrics.remove_rollout("v1.36")
    assert ALERT("RolloutStopped") not in firing(scraped())


def store(**fields):
    """Return a report of an etcd, which is well unless told otherwise."""
    members = (Member(id="1", peer_url="u", ordinal=0),)
    given = {"reason": "R", "message": "m", "is_ready": True, "members": members, **fields}
    return StoreReport(**given)


@pytest.mark.parametrize(
    ("found", "alerts"),
    [
        (store(), set()),
        (store(is_ready=None, members=()), {("StoreDegraded", "unreachable")}),
        (store(is_ready=False), {("StoreDegraded", "degraded")}),
        (store(is_filling=True), {("StoreFilling", None)}),
        (store(is_filling=False), set()),
    ],
)
def test_an_etcd_that_fills_or_lacks_a_member(found, alerts):
    stores = StoreRecords()
    desired = DesiredStore(owner=AGENT_TRUST_KEY, endpoints={}, peer_urls=(), replicas=1)
    for uid, each in (("well", store()), ("ill", found)):
        stores.set_desired(uid, desired)
        stores.set_report(uid, each)
    fired = firing(scraped())
    assert alerts == {
        (name, alert.labels.get("condition"))
        for name in ("StoreDegraded", "StoreFilling")
        for alert in fired.get(ALERT(name), [])
    }
    stores.remove("ill")
    assert not {ALERT("StoreDegraded"), ALERT("StoreFilling")} & set(firing(scraped()))


def test_a_tenant_without_a_recent_snapshot():
    schedules = SnapshotSchedules()
    schedules.set("well", is_overdue=False)
    assert ALERT("SnapshotOverdue") not in firing(scraped())
    schedules.set("ill", is_overdue=True)
    assert ALERT("SnapshotOverdue") in firing(scraped())
    schedules.remove("ill")
    assert ALERT("SnapshotOverdue") not in firing(scraped())


def test_every_alert_is_made_to_fire_somewhere():
    from tests.integration.syncer.test_alerts import TROUBLES  # noqa: PLC0415

    here = {"SyncerDown", "ManagerDown", "ReconcileErrors", "CertificateExpiring", "AgentFailing"}
    here |= {"StoreFull", "TargetInTrouble", "RolloutStopped", "StoreFilling", "StoreDegraded"}
    here |= {"SnapshotOverdue"}
    assert {ALERT(name) for name in here} | set(TROUBLES) == {rule["alert"] for rule in rules()}
