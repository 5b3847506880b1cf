"""The audit of a tenant of the real syncer: no false alarm, and a hole for each removed rule."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from kubectl_vc.audit import objects, quota
from kubectl_vc.audit.addresses import SuperObjects
from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.report import AuditResult
from syncer.model.tenant_view import TenantView
from syncer.rules.network import services
from syncer.safety.quota_accounting import QuotaAccountant
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import RUNTIME_CLASSES, STORAGE_CLASSES
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.names import fresh_name

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

IMAGE = "registry.example/busybox:1"
POLICY = structs.replace(
    BASELINE_POLICY,
    network=structs.replace(BASELINE_POLICY.network, service_types=("ClusterIP",)),
    sync=structs.replace(BASELINE_POLICY.sync, storage_classes=ClassFilter(names=("standard",))),
    quota={"requests.cpu": "1", "pods": 50},
)
SUPER_OBJECTS = SuperObjects(
    nodes=(),
    component_pods=(),
    api_services=[{"spec": {"clusterIPs": ["10.96.0.1", "fd00:96::1"]}}],
    api_slices=(),
)
DECOY_POD = {"status": {"podIPs": [{"ip": "10.244.1.3"}, {"ip": "fd00:244::3"}]}}
QUOTA_ROW = "quota-over-namespaces"

Patch = pytest.MonkeyPatch


@pytest.fixture
async def judged(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """A world whose tenant has a quota, and whose super cluster has classes of no policy."""
    classes = (
        (STORAGE_CLASSES, {"provisioner": "disk.example.com"}),
        (RUNTIME_CLASSES, {"handler": "x"}),
    )
    name = f"zz-{fresh_name('class')}"
    for resource, body in classes:
        await world.super_client.create(resource, {"metadata": {"name": name}, **body})
    async with policed(world, POLICY):
        yield world
    for resource, _ in classes:
        await world.super_client.delete(resource, name)


@asynccontextmanager
async def opened(world: SyncerWorld) -> AsyncIterator[tuple[AuditFixture, TenantSide]]:
    """Create the audit's namespace in the tenant, and delete at the end what the audit created."""
    work = AuditFixture(world.super_client)
    own = TenantSide(tenant=world.tenant, client=world.tenant_client, namespace=fresh_name("audit"))
    await work.create_namespace(own.client, own.namespace)
    work.expect_removal(own.super_namespace)
    await world.settled_namespace(own.namespace)
    try:
        yield work, own
    finally:
        left = await work.remove()
    assert left == []


async def audit(world: SyncerWorld) -> list[AuditResult]:
    """Return the results of the rows about objects and about the quota."""
    name = fresh_name("decoy")
    decoy_tenant = dataclasses.replace(world.tenant, name=name, uid=name, root=f"default-x-{name}")
    async with opened(world) as (work, own):
        decoy = TenantSide(tenant=decoy_tenant, client=own.client, namespace=own.namespace)
        results = await objects.run_object_probes(
            world.super_client,
            own=own,
            decoy=decoy,
            decoy_pod=DECOY_POD,
            super_cluster=SUPER_OBJECTS,
            policy=POLICY,
            image=IMAGE,
            work=work,
        )
        return [*results, await quota.run_quota_probe(work, own, POLICY, IMAGE)]


def find(results: list[AuditResult], *verdicts: Verdict) -> dict[str, str]:
    """Return the rows with some verdicts, and their notes."""
    return {each.probe: each.note for each in results if each.verdict in verdicts}


async def test_the_rules_leave_no_hole_and_no_row_without_a_verdict(judged: SyncerWorld):
    async with judged.syncer():
        results = await audit(judged)
    assert find(results, Verdict.FAILED, Verdict.UNKNOWN, Verdict.ABSENT) == {}


# --- removed rules -------------------------------------------------------------------------------


def offer_all_services(patch: Patch) -> None:
    """Let each type of Service pass, whatever the policy offers."""
    patch.setattr(services, "_find_policy_problems", lambda *_: iter(()))


def show_all_storage_classes(patch: Patch) -> None:
    """Let a claim name each StorageClass of the super cluster."""
    shows = TenantView.shows_class

    def show(self: TenantView, kind: str, name: str) -> bool:
        return kind == "StorageClass" or shows(self, kind, name)

    patch.setattr(TenantView, "shows_class", show)


def forget_the_quota(patch: Patch) -> None:
    """Let the accountant know no limit. The ResourceQuota of each namespace stays."""
    patch.setattr(QuotaAccountant, "set_hard", lambda *_: None)


# Rules about volumes and addresses are left out: the admission policy and the search for foreign
# pods refuse what passes them.
REMOVALS: tuple[tuple[Callable[[Patch], None], set[str]], ...] = (
    (offer_all_services, {"node-port"}),
    (show_all_storage_classes, {"storage-class"}),
    (forget_the_quota, {QUOTA_ROW}),
)


@pytest.mark.parametrize(
    ("remove", "rows"), REMOVALS, ids=lambda each: getattr(each, "__name__", "")
)
async def test_a_removed_rule_is_a_hole(
    judged: SyncerWorld, monkeypatch: Patch, remove: Callable[[Patch], None], rows: set[str]
):
    remove(monkeypatch)
    async with judged.syncer():
        results = await audit(judged)
    assert set(find(results, Verdict.FAILED)) == rows, find(results, *Verdict)
    assert find(results, Verdict.UNKNOWN) == {}
