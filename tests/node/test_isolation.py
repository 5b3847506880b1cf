"""Packets between tenants: the matrix of `kubectl vc audit`, enforced, not enforced, and opened."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kubectl_vc.audit.probes import PACKET_PROBES, Answer
from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support.kubectl import until
from tools.testbed.cluster.topology import HUB

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

METADATA = "169.254.169.254"
NEGATIVES = {probe.name for probe in PACKET_PROBES if probe.expected is not Answer.OPEN}
POSITIVES = {probe.name for probe in PACKET_PROBES} - NEGATIVES
ALLOW_ALL = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "mutant"},
    "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{}],
        "egress": [{}],
    },
}


@pytest.fixture(scope="module")
def metadata_server(super_cluster: SuperClusterAdmin) -> Iterator[None]:
    """A server at the metadata address, which nodes and pods reach by their default route."""
    enter = ["nsenter", f"--net=/proc/{super_cluster.cluster.pid_of(HUB)}/ns/net"]
    subprocess.run([*enter, "ip", "address", "replace", f"{METADATA}/32", "dev", "lo"], check=True)
    server = [sys.executable, "-m", "http.server", "80", "--bind", METADATA]
    with subprocess.Popen([*enter, *server], cwd="/proc", stderr=subprocess.DEVNULL) as process:
        yield
        process.kill()
    subprocess.run([*enter, "ip", "address", "delete", f"{METADATA}/32", "dev", "lo"], check=True)


@pytest.fixture
def tenants(tenant_a: TenantAdmin, tenant_b: TenantAdmin) -> dict[str, TenantAdmin]:
    return {"a": tenant_a, "b": tenant_b}


@pytest.fixture
def audit(
    super_cluster: SuperClusterAdmin,
    tenant_a: TenantAdmin,
    tenant_b: TenantAdmin,
    metadata_server: None,
) -> Callable[[int], dict[str, Any]]:
    """Return a function that audits tenant-a, checks the exit code and returns the document."""
    if not super_cluster.cluster.enforces:
        pytest.skip("the kernel lacks NFQUEUE, so the testbed enforces no NetworkPolicies")

    def run(code: int) -> dict[str, Any]:
        words = ("vc", "audit", tenant_a.name, "--decoy", tenant_b.name, "-o", "json")
        done = super_cluster.kubectl.call(*words, timeout=600)
        assert done.code == code, f"{done.err}\n{done.out}"
        found: dict[str, Any] = json.loads(done.out)
        return found

    return run


def by_verdict(document: dict[str, Any], verdict: str) -> set[str]:
    return {each["probe"] for each in document["results"] if each["verdict"] == verdict}


def condition(super_cluster: SuperClusterAdmin, tenant: TenantAdmin) -> dict[str, Any]:
    found = super_cluster.condition(tenant.name, "IsolationProved")
    assert found is not None
    return found


def leftovers(super_cluster: SuperClusterAdmin, *tenants: TenantAdmin) -> list[str]:
    found = super_cluster.kubectl.names("namespaces")
    for tenant in tenants:
        found += tenant.kubectl.names("namespaces")
        found += tenant.kubectl.names("validatingwebhookconfigurations")
    return [name for name in found if "vc-audit-" in name]


def test_with_enforcement_the_isolation_is_proved(audit, super_cluster, tenant_a, tenant_b):
    document = audit(0)
    assert document["IsolationProved"] == "True"
    assert by_verdict(document, "failed") == by_verdict(document, "unknown") == set()
    assert by_verdict(document, "passed") | by_verdict(document, "absent") >= NEGATIVES | POSITIVES
    found = condition(super_cluster, tenant_a)
    assert (found["status"], found["reason"]) == ("True", "Proved")
    assert document["finished"] in found["message"]
    assert leftovers(super_cluster, tenant_a, tenant_b) == []


def test_without_enforcement_each_hole_is_reported(audit, super_cluster, tenant_a):
    with super_cluster.without_enforcement():
        document = audit(3)
    answered = by_verdict(document, "failed")
    absent = (by_verdict(document, "absent") & NEGATIVES) - answered
    print(f"planted holes found: {len(answered | absent)} of {len(NEGATIVES)}")
    assert answered | absent >= NEGATIVES
    assert absent <= {probe.name for probe in PACKET_PROBES if probe.may_be_absent}
    assert "metadata-from-pod" in answered
    assert by_verdict(document, "unknown") == set()
    found = condition(super_cluster, tenant_a)
    assert (found["status"], found["reason"]) == ("False", "HolesFound")


# Mutant policies: the namespaces in which everything is allowed, and the holes that this opens.
MUTANTS = [
    pytest.param(
        ("root-a", "root-b"),
        {"decoy-control-plane-from-api", "decoy-api-from-api", "super-api-from-api"},
        id="both control planes",
    ),
    pytest.param(("root-a",), {"kubelet-from-api", "metadata-from-api"}, id="own control plane"),
    pytest.param(
        ("pods-a",),
        {"super-api-from-pod", "kubelet-from-pod", "metadata-from-pod"},
        id="own namespaces",
    ),
    pytest.param(
        ("pods-a", "pods-b"), {"decoy-pod-from-pod", "decoy-service-from-pod"}, id="all namespaces"
    ),
    pytest.param(
        ("pods-a", "root-a"), {"own-etcd-from-pod"}, id="own namespaces and control plane"
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("opened", "holes"), MUTANTS)
def test_a_mutant_policy_is_found(audit, super_cluster, tenants, opened, holes):

    def is_opened(namespace: str) -> bool:
        for each in opened:
            kind, _, letter = each.partition("-")
            root = tenants[letter].root
            if kind == "root" and namespace == root:
                return True
            if kind == "pods" and namespace.startswith(f"{root}-vc-audit"):
                return True
        return False

    with everything_allowed(super_cluster, is_opened):
        document = audit(3)
    print(f"planted holes found: {len(by_verdict(document, 'failed') & holes)} of {len(holes)}")
    assert by_verdict(document, "failed") >= holes


@contextmanager
def everything_allowed(
    super_cluster: SuperClusterAdmin, is_opened: Callable[[str], bool]
) -> Iterator[None]:
    """Add a policy that allows everything to some namespaces, also to those created meanwhile."""
    done: set[str] = set()
    ended = threading.Event()

    def add() -> None:
        while not ended.wait(0.5):
            for name in super_cluster.kubectl.call("get", "namespaces", "-o", "name").out.split():
                namespace = name.removeprefix("namespace/")
                if namespace not in done and is_opened(namespace):
                    words = ("-n", namespace, "apply", "-f", "-")
                    if not super_cluster.kubectl.call(*words, stdin=json.dumps(ALLOW_ALL)).code:
                        done.add(namespace)

    thread = threading.Thread(target=add)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for namespace in done:
            words = ("-n", namespace, "delete", "networkpolicy", "mutant", "--ignore-not-found")
            super_cluster.kubectl.call(*words)


@pytest.mark.thorough
def test_an_interrupted_audit_leaves_nothing(super_cluster, tenant_a, tenant_b):
    words = ("vc", "audit", tenant_a.name, "--decoy", tenant_b.name)
    # A job in the background inherits SIGINT as ignored, and would pass that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGTERM):
        with super_cluster.kubectl.running(*words) as running:
            until(lambda: leftovers(super_cluster, tenant_a), "the audit's namespace")
            running.send_signal(number)
            assert running.wait(timeout=200) == 130
            assert "interrupted" in running.stderr.read()
        assert leftovers(super_cluster, tenant_a, tenant_b) == []
