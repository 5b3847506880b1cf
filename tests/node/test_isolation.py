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
from tenancy import wellknown
from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin
from tests.support import enforcement
from tests.support.kubectl import until
from tools.testbed.cluster.topology import HUB

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

METADATA = "169.254.169.254"
MANAGER = "vc-manager"
PROBE_SCRIPT = """
import asyncio, json, sys
from vcmanager.phases.policy_enforcement import PolicyEnforcementProbe
from vcmanager.runtime.observed import ObservedObjects
pods = {pod["metadata"]["name"]: pod for pod in json.load(sys.stdin)}
observed = ObservedObjects(namespace={}, objects={"Pod": pods})
print(json.dumps(asyncio.run(PolicyEnforcementProbe().probe(observed))))
"""
"""One run of vc-manager's probe in its pod. A new process has no result of the last 10 min."""
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
def enforcing(super_cluster: SuperClusterAdmin) -> None:
    """Leave out the test, or fail it in CI, in a cluster that lets every packet pass."""
    enforcement.require(enforces=super_cluster.cluster.enforces)


@pytest.fixture
def audit(
    enforcing: None,
    super_cluster: SuperClusterAdmin,
    tenant_a: TenantAdmin,
    tenant_b: TenantAdmin,
    metadata_server: None,
) -> Callable[[int], dict[str, Any]]:
    """Return a function that audits tenant-a, checks the exit code and returns the document."""

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
    """SEC-40, SEC-43: each connection that must be closed has a control that is open."""
    document = audit(0)
    assert document["IsolationProved"] == "True"
    assert by_verdict(document, "failed") == by_verdict(document, "unknown") == set()
    assert by_verdict(document, "passed") | by_verdict(document, "absent") >= NEGATIVES | POSITIVES
    found = condition(super_cluster, tenant_a)
    assert (found["status"], found["reason"]) == ("True", "Proved")
    assert document["finished"] in found["message"]
    assert leftovers(super_cluster, tenant_a, tenant_b) == []


@pytest.mark.slow
@pytest.mark.timeout(4000)
def test_twenty_audits_raise_no_false_alarm(audit, super_cluster, tenant_a, tenant_b):
    """SEC-43. Each audit prints its number."""
    for number in range(20):
        document = audit(0)
        assert by_verdict(document, "failed") == by_verdict(document, "unknown") == set(), number
        assert leftovers(super_cluster, tenant_a, tenant_b) == []
        print(f"audit {number + 1}: {len(by_verdict(document, 'passed'))} passed")


def test_without_enforcement_each_hole_is_reported(audit, super_cluster, tenant_a):
    """SEC-40, SEC-43: the policies close these connections, and nothing else does."""
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


def probed(super_cluster: SuperClusterAdmin, tenant: TenantAdmin) -> str:
    """Return the reason that a new probe in the pod of vc-manager reports."""
    pods = json.dumps(super_cluster.kubectl.items("pods", "-n", tenant.root))
    words = ("-n", COMPONENTS, "exec", "-i", f"deployment/{MANAGER}", "--", "python3", "-c")
    _, reason, _ = json.loads(super_cluster.kubectl.run(*words, PROBE_SCRIPT, stdin=pods))
    return str(reason)


def test_the_probe_of_vc_manager_sees_whether_policies_are_enforced(
    enforcing, super_cluster, tenant_a
):
    """SEC-44."""
    with super_cluster.without_enforcement():
        assert probed(super_cluster, tenant_a) == "ConnectionAccepted"
    until(lambda: probed(super_cluster, tenant_a) == "ConnectionRefused", "policies enforced again")


@pytest.mark.thorough
def test_the_condition_reports_the_probe(enforcing, super_cluster, tenant_a):
    """SEC-44: vc-manager is restarted, because it keeps a result for 10 min."""

    def restart() -> None:
        deployment = ("-n", COMPONENTS, "rollout")
        super_cluster.kubectl.run(*deployment, "restart", f"deployment/{MANAGER}")
        super_cluster.kubectl.run(*deployment, "status", f"deployment/{MANAGER}", timeout=180)

    def is_reported(status: str, reason: str) -> bool:
        found = super_cluster.condition(tenant_a.name, wellknown.NETWORK_POLICIES_ENFORCED) or {}
        return (found.get("status"), found.get("reason")) == (status, reason)

    try:
        with super_cluster.without_enforcement():
            restart()
            until(lambda: is_reported("False", "ConnectionAccepted"), "the lack reported")
    finally:
        restart()
    until(lambda: is_reported("True", "ConnectionRefused"), "the enforcement reported")


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
        {"super-api-from-pod", "super-dns-from-pod", "kubelet-from-pod", "metadata-from-pod"},
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
    """SEC-40, SEC-43: without the policies of some namespaces, their connections are open."""

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
