"""Planted holes on real API servers: mutant syncers, quotas, and servers that answer tenants.

Holes for the packets of pods are in tests/node/test_isolation.py, because they need a node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec import structs

from kubectl_vc.audit import addresses, objects, quota, runner
from kubectl_vc.audit.addresses import SuperObjects, TargetAddress, TenantObjects
from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.object_probes import OBJECT_PROBES
from kubectl_vc.audit.probes import PACKET_PROBES, Answer, Place, Target
from kubectl_vc.audit.runner import AuditPlan
from kubeio import Object
from kubeio.api.client import Client
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import NAMESPACES, PODS, RUNTIME_CLASSES, SERVICES, STORAGE_CLASSES
from tests.integration.kubectl_vc.holes.listeners import listening
from tests.integration.kubectl_vc.holes.mutants import MUTANTS, Change, Mutant, MutantSyncer, keep
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.own_address import OWN, needs_address
from tests.support.processes import free_port

MIN_PLANTED = 40
NO_POD = {"metadata": {"name": ""}, "spec": {}}
IMAGE = "registry.example/busybox:1"
AT_ONCE = 8
POLICY = structs.replace(
    BASELINE_POLICY,
    network=structs.replace(BASELINE_POLICY.network, service_types=("ClusterIP",)),
    sync=structs.replace(BASELINE_POLICY.sync, storage_classes=ClassFilter(names=("standard",))),
)
QUOTAS = ({"requests.cpu": "1"}, {"requests.memory": "1Gi"})
API_ROWS = {
    probe.target: probe.name
    for probe in PACKET_PROBES
    if probe.source is Place.TENANT_API and probe.expected is Answer.REFUSED
}
SERVERS: tuple[tuple[Target, str], ...] = (
    (Target.DECOY_POD, "http"),
    (Target.DECOY_SERVICE, "tls"),
    (Target.DECOY_NODE_PORT, "http"),
    (Target.DECOY_API, "tls"),
    (Target.DECOY_API_SERVICE, "mtls"),
    (Target.DECOY_CONTROL_PLANE, "mtls"),
    (Target.COMPONENT, "http"),
    (Target.SUPER_API, "tls"),
    (Target.KUBELET, "tls"),
    (Target.METADATA, "http"),
    (Target.DECOY_POD, "closing"),
    (Target.COMPONENT, "closing"),
    (Target.KUBELET, "mtls"),
)
"""Servers that must not be reachable from the API server, and how they answer."""


@pytest.fixture(scope="module")
def planes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LocalControlPlane, LocalControlPlane]]:
    """A super cluster with classes that no policy allows, and the API server of a tenant."""

    async def furnish(client: Client) -> None:
        await client.create(
            STORAGE_CLASSES, {"metadata": {"name": "zz-fast"}, "provisioner": "disk.example.com"}
        )
        await create_runtime_class(client)

    folder = tmp_path_factory.mktemp("holes")
    plane = LocalControlPlane(folder / "super", name="super")
    tenant = LocalControlPlane(
        folder / "tenant", name="tenant", service_range="10.96.8.0/22", store_of=plane
    )
    with serving(plane, furnish), serving(tenant, create_runtime_class):
        yield plane, tenant


async def create_runtime_class(client: Client) -> None:
    """Create a class. An administrator of a tenant can do so, too."""
    await client.create(RUNTIME_CLASSES, {"metadata": {"name": "zz-sandbox"}, "handler": "x"})


@pytest.fixture
async def clients(
    planes: tuple[LocalControlPlane, LocalControlPlane],
) -> AsyncIterator[tuple[Client, Client]]:
    """The administrators of the super cluster and of the tenant."""
    plane, tenant = planes
    async with Client(plane.endpoint) as below, Client(tenant.endpoint) as above:
        yield below, above


def side(client: Client) -> TenantSide:
    """Return a tenant that nothing knows yet."""
    name, uid = fresh_name("vc"), fresh_name("uid")
    root = names.build_root_namespace("default", name, uid)
    tenant = Tenant(name=name, namespace="default", uid=uid, root=root)
    return TenantSide(tenant=tenant, client=client, namespace=fresh_name("vc-audit"))


async def open_audit(clients: tuple[Client, Client]) -> tuple[TenantSide, TenantSide, MutantSyncer]:
    """Create two tenants with the audit's namespaces, and the syncer of the first one."""
    below, above = clients
    own, decoy = side(above), side(above)
    syncer = MutantSyncer(below, own, decoy)
    await above.create(NAMESPACES, {"metadata": {"name": own.namespace}})
    for each in (own, decoy):
        await MutantSyncer(below, each, own).create_namespace(each.namespace)
    return own, decoy, syncer


async def audit_objects(
    clients: tuple[Client, Client], mutant: Mutant | None
) -> tuple[set[str], set[str]]:
    """Return the rows that fail with a mutant, and those that the tenant's API server refused."""
    own, decoy, syncer = await open_audit(clients)
    async with syncer.running(mutant):
        results = await objects.run_object_probes(
            clients[0],
            own=own,
            decoy=decoy,
            decoy_pod={"status": {"podIPs": [{"ip": "10.244.1.3"}, {"ip": "fd00:244::3"}]}},
            super_cluster=SuperObjects(
                nodes=(),
                component_pods=(),
                api_services=[{"spec": {"clusterIPs": ["10.96.0.1", "fd00:96::1"]}}],
                api_slices=(),
            ),
            policy=POLICY,
            image=IMAGE,
            work=AuditFixture(clients[0]),
        )
    assert {each.probe for each in results} == {probe.name for probe in OBJECT_PROBES}
    failed = {each.probe for each in results if each.verdict is Verdict.FAILED}
    unproved = {
        each.probe
        for each in results
        if each.verdict in (Verdict.UNKNOWN, Verdict.ABSENT) or "API server" in each.note
    }
    return failed, unproved


async def count_mutants(clients: tuple[Client, Client]) -> tuple[int, list[str]]:
    """Return the number of mutant syncers that are found, each by its own row alone."""
    at_once = asyncio.Semaphore(AT_ONCE)
    wrong: list[str] = []

    async def find(mutant: Mutant) -> int:
        async with at_once:
            failed, unproved = await audit_objects(clients, mutant)
        if failed == {mutant.probe} and not unproved:
            return 1
        wrong.append(f"{mutant.name}: {failed} failed, {unproved} unproved")
        return 0

    return sum(await asyncio.gather(*map(find, MUTANTS))), wrong


async def count_quotas(clients: tuple[Client, Client]) -> int:
    """Return the number of quotas without enforcement that are found."""

    async def find(limits: dict[str, str]) -> bool:
        own, _, syncer = await open_audit(clients)
        second = f"{own.namespace}-quota"
        await syncer.create_namespace(second)

        async def sync() -> None:
            while True:
                for namespace in (own.namespace, second):
                    await syncer.sync(PODS, "quota", namespace, keep)
                await asyncio.sleep(0.3)

        task = asyncio.create_task(sync())
        try:
            policy = structs.replace(POLICY, quota=limits)
            found = await quota.run_quota_probe(AuditFixture(clients[0]), own, policy, IMAGE)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return found.verdict is Verdict.FAILED

    return sum(await asyncio.gather(*map(find, QUOTAS)))


async def ask_api_server(
    clients: tuple[Client, Client], listed: list[TargetAddress]
) -> dict[TargetAddress, Answer]:
    """Return what the tenant's API server reaches, by the audit's own way."""
    own, decoy, _ = await open_audit(clients)
    plan = AuditPlan(
        own=own,
        decoy=decoy,
        image=IMAGE,
        name=own.namespace,
        manager_namespace="vc-manager",
        policy=POLICY,
    )
    return dict(await runner.call_webhooks(AuditFixture(clients[0]), plan, listed))


def judge(answers: dict[TargetAddress, Answer]) -> list[str]:
    """Return the rows that fail, with controls that all answer."""
    etcd = TargetAddress(Target.OWN_ETCD, "192.0.2.9", 2379)
    controls = {
        (place, each): Answer.OPEN for place in (Place.NODE, Place.DECOY_POD) for each in answers
    }
    seen = {(Place.TENANT_API, each): answer for each, answer in answers.items()}
    proof = {(Place.TENANT_API, etcd): Answer.OPEN}
    families = dict.fromkeys((Place.TENANT_POD, Place.TENANT_API), frozenset({4}))
    results = runner.judge_packets([*answers, etcd], controls | seen | proof, families)
    return [each.probe for each in results if each.verdict is Verdict.FAILED]


async def count_servers(clients: tuple[Client, Client]) -> int:
    """Return the number of reachable servers that are found, beside closed ports of each row."""
    async with contextlib.AsyncExitStack() as stack:
        holes = [
            TargetAddress(target, OWN, await stack.enter_async_context(listening(kind)))
            for target, kind in SERVERS
        ]
        closed = [TargetAddress(target, OWN, free_port()) for target in API_ROWS]
        answers = await ask_api_server(clients, [*holes, *closed])
    assert {answers[each] for each in closed} == {Answer.REFUSED}
    found = [each for each in holes if answers[each] is Answer.OPEN]
    failed = judge(answers)
    assert sorted(failed) == sorted(API_ROWS[each.target] for each in found)
    return len(found)


@needs_address
@pytest.mark.timeout(300)
async def test_each_planted_hole_is_found(clients: tuple[Client, Client]):
    assert {target for target, _ in SERVERS} == set(API_ROWS)
    planted = len(MUTANTS) + len(QUOTAS) + len(SERVERS)
    (mutants, wrong), quotas, servers = await asyncio.gather(
        count_mutants(clients), count_quotas(clients), count_servers(clients)
    )
    found = mutants + quotas + servers
    print(
        f"planted holes found: {found} of {planted}"
        f" ({mutants} mutants, {quotas} quotas, {servers} servers)"
    )
    assert planted >= MIN_PLANTED
    assert not wrong, wrong
    assert found == planted


@pytest.mark.parametrize(
    ("node_dns", "seen", "verdict"),
    [
        ("Refuse", Answer.OPEN, Verdict.FAILED),
        ("Refuse", Answer.TIMEOUT, Verdict.PASSED),
        ("Allow", Answer.OPEN, Verdict.ABSENT),
    ],
)
async def test_an_open_dns_of_the_super_cluster_is_a_hole_unless_the_policy_opens_it(
    clients: tuple[Client, Client], node_dns: str, seen: Answer, verdict: Verdict
):
    """The address is that of the Service. A packet of a pod needs a node (tests/node)."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"k8s-app": "kube-dns"},
        },
        "spec": {
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53},
                {"name": "metrics", "port": 9153},
            ]
        },
    }
    made = await clients[0].apply(SERVICES, service, field_manager="test")
    found = await runner.fetch_super_objects(clients[0], "vc-manager")
    side = TenantObjects(root_pods=(), root_services=(), server_pod=NO_POD, server_services=())
    listed = [
        each
        for each in addresses.find_endpoints(side, side, found)
        if each.target is Target.SUPER_DNS
    ]
    assert [(each.host, each.port) for each in listed] == [(made["spec"]["clusterIP"], 53)]
    own_api = TargetAddress(Target.OWN_API, "192.0.2.9", 6443)
    answers = {
        (Place.NODE, listed[0]): Answer.OPEN,
        (Place.TENANT_POD, listed[0]): seen,
        (Place.TENANT_POD, own_api): Answer.OPEN,
    }
    families = dict.fromkeys((Place.TENANT_POD, Place.TENANT_API), frozenset({4}))
    network = structs.replace(BASELINE_POLICY.network, node_dns=node_dns)
    policy = structs.replace(BASELINE_POLICY, network=network)
    results = runner.judge_packets([*listed, own_api], answers, families, policy=policy)
    (row,) = [each for each in results if each.probe == "super-dns-from-pod"]
    assert row.verdict is verdict


def end(message: str) -> dict[str, Any]:
    """Return the status of a prober that ended with a message."""
    status = {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
    state = {"terminated": {"exitCode": 0, "message": message}}
    return {"status": {"phase": "Succeeded", "containerStatuses": [{**status, "state": state}]}}


def let_commands_change(twin: Object, decoy: TenantSide) -> None:
    """A webhook of the tenant has written another program into the prober."""
    twin["spec"]["containers"][0]["command"] = ["sh", "-c", "echo 0=timeout"]


@pytest.mark.parametrize(
    ("change", "answer"), [(keep, Answer.OPEN), (let_commands_change, Answer.CHANGED)]
)
async def test_a_tenant_does_not_write_the_results_of_its_prober(
    clients: tuple[Client, Client], change: Change, answer: Answer
):
    below, above = clients
    own, _, syncer = await open_audit(clients)
    listed = [TargetAddress(Target.DECOY_POD, "192.0.2.9", 8080)]

    def sync(twin: Object, decoy: TenantSide) -> None:
        twin["metadata"]["annotations"][wellknown.CONTAINERS] = "main"
        change(twin, decoy)

    async def run() -> bool:
        await syncer.sync(PODS, "prober", own.namespace, sync)
        for client, namespace, message in (
            (above, own.namespace, "0=timeout"),
            (below, own.super_namespace, "0=open"),
        ):
            await client.patch(
                PODS, "prober", end(message), namespace=namespace, subresource="status"
            )
        return True

    answers, _ = await asyncio.gather(
        runner.run_prober(AuditFixture(below), own, IMAGE, listed), eventually(run)
    )
    assert answers == {listed[0]: answer}


async def test_without_a_hole_no_row_fails(clients: tuple[Client, Client]):
    failed, unproved = await audit_objects(clients, None)
    assert failed == set()
    assert unproved == set()
