"""cert-manager in a tenant: custom resources, a webhook and RBAC that the super cluster never sees.

Installed as a tenant's admin does it: helm, the chart with its CRDs, the tenant's kubeconfig. Its
namespace denies all traffic by a NetworkPolicy, and nothing allows any: pods keep their way to
their cluster's API and DNS, and the API server its way to them.

The network of the embedded cluster enforces no NetworkPolicy, so that all of it works here proves
nothing about the policy. What the policy means is therefore read from the super cluster's own
objects, by an evaluator that is written from the API's text and given the pods that there are.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tenancy import names
from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import policy_matrix
from tests.support.kubectl import until
from tests.support.policy_matrix import NetworkHost, NetworkPod, NetworkPort
from tools.testbed import cache
from tools.testbed.artifacts import cert_manager
from tools.testbed.artifacts.registry import publish
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

HOME = "cert-manager"
SPACE = "certified"
DENY_ALL = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "deny-all", "namespace": HOME},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}
ISSUER = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Issuer",
    "metadata": {"name": "self", "namespace": SPACE},
    "spec": {"selfSigned": {}},
}
API_PORT, DNS_PORTS, WEBHOOK_PORT = (
    NetworkPort(6443),
    (NetworkPort(53), NetworkPort(53, "UDP")),
    NetworkPort(10250),
)


def helm(tenant: TenantAdmin, *words: str) -> None:
    """Run helm as the tenant's admin."""
    home = str(cache.folder("helm"))
    own = dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"), home)
    path = {"PATH": tenant.kubectl.path, "KUBECONFIG": str(tenant.kubectl.kubeconfig)}
    done = subprocess.run(
        ["helm", *words, "--namespace", HOME],
        env={**os.environ, **own, **path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"


@pytest.fixture(scope="module")
def installed(
    super_cluster: SuperClusterAdmin,
    tenant_a: TenantAdmin,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TenantAdmin]:
    """A tenant with cert-manager at work."""
    publish(cert_manager.build(StepPrinter()), super_cluster.cluster.places.registry)
    chart = cert_manager.write_chart(tmp_path_factory.mktemp("chart"))
    for name in (HOME, SPACE):
        tenant_a.kubectl.run("create", "namespace", name)
    tenant_a.kubectl.apply(DENY_ALL)
    try:
        own = ["--set", "installCRDs=true", *cert_manager.settings()]
        helm(tenant_a, "install", "cert-manager", str(chart), *own, "--wait", "--timeout=4m")
        # The webhook is Ready before cainjector has written its authority.
        until(
            lambda: (
                tenant_a.kubectl.run("apply", "-f", "-", stdin=json.dumps(ISSUER))
                and tenant_a.kubectl.exists("issuer", "self", "-n", SPACE)
            ),
            "the webhook answers",
            seconds=90,
        )
        yield tenant_a
    finally:
        tenant_a.kubectl.run("delete", "namespace", SPACE, timeout=120)
        helm(tenant_a, "uninstall", "cert-manager", "--ignore-not-found", "--wait")
        tenant_a.kubectl.run("delete", "namespace", HOME, timeout=120)


def certificate(name: str, **spec: object) -> dict[str, object]:
    """Return a Certificate of our Issuer."""
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"secretName": f"{name}-tls", "issuerRef": {"name": "self"}, **spec},
    }


def test_a_certificate_is_issued(installed: TenantAdmin):
    kubectl = installed.kubectl
    kubectl.apply(certificate("shop", dnsNames=["shop.example"]))
    kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "certificate/shop", "--timeout=90s")
    data = kubectl.get("secret", "shop-tls", "-n", SPACE)["data"]
    assert {"tls.crt", "tls.key", "ca.crt"} <= set(data)
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-ext", "subjectAltName"],
        input=base64.b64decode(data["tls.crt"]),
        capture_output=True,
        check=True,
    )
    assert b"DNS:shop.example" in shown.stdout


def test_the_tenants_api_server_calls_the_webhook(
    installed: TenantAdmin, super_cluster: SuperClusterAdmin
):
    """An invalid request is refused and the user is recorded. Only the webhook does that."""
    kubectl = installed.kubectl
    done = kubectl.call(
        "apply", "--validate=false", "-f", "-", stdin=json.dumps(certificate("nameless"))
    )
    assert done.code != 0
    assert 'admission webhook "webhook.cert-manager.io" denied the request' in done.err
    assert "at least one of commonName, dnsNames" in done.err, done.err
    assert not kubectl.exists("certificate", "nameless", "-n", SPACE)
    kubectl.apply(certificate("asked", dnsNames=["asked.example"]))
    kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "certificate/asked", "--timeout=90s")
    requests = kubectl.items("certificaterequests", "-n", SPACE)
    assert {item["spec"]["username"] for item in requests} == {
        f"system:serviceaccount:{HOME}:cert-manager"
    }
    # The webhook answers from a pod of the tenant that the super cluster's node runs.
    where = installed.super_namespace(HOME)
    addresses = {
        address
        for item in kubectl.items(
            "endpointslices", "-n", HOME, "-l", "kubernetes.io/service-name=cert-manager-webhook"
        )
        for endpoint in item["endpoints"]
        for address in endpoint["addresses"]
    }
    webhook = super_cluster.kubectl.items("pods", "-n", where, "-l", "app=webhook")
    assert addresses == {pod["status"]["podIP"] for pod in webhook}


def test_nothing_of_its_machinery_is_in_the_super_cluster(
    installed: TenantAdmin, super_cluster: SuperClusterAdmin
):
    kubectl = super_cluster.kubectl
    assert len(installed.kubectl.run("get", "crd", "-o", "name").split()) == 6
    assert [name for name in kubectl.names("crd") if "cert-manager" in name] == []
    api_groups = kubectl.run("api-versions").split()
    assert [group for group in api_groups if "cert-manager" in group] == []
    for kind in (
        "clusterroles",
        "clusterrolebindings",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "apiservices",
    ):
        found = kubectl.names(kind)
        assert [name for name in found if "cert-manager" in name or "webhook" in name] == [], kind
    spaces = (installed.super_namespace(HOME), installed.super_namespace(SPACE))
    for space in spaces:
        for kind in ("roles", "deployments", "replicasets", "leases"):
            assert kubectl.names(kind, "-n", space) == [], (space, kind)
        assert kubectl.names("rolebindings", "-n", space) == ["vc-syncer"]
        assert kubectl.names("serviceaccounts", "-n", space) == ["default", "vc-workload"]
    # No pod mounts the certificate that was issued, nor what helm remembers.
    assert kubectl.names("pods", "-n", spaces[0]) == installed.kubectl.names("pods", "-n", HOME)
    assert kubectl.names("secrets", "-n", spaces[1]) == []
    secrets = kubectl.names("secrets", "-n", spaces[0])
    assert [name for name in secrets if not name.startswith("vc-token-")] == []


def hosts(super_cluster: SuperClusterAdmin, labels: dict[str, dict[str, str]], space: str):
    """Return the pods of a super namespace as the policies' evaluator takes them."""
    return [
        NetworkPod(
            ip=pod["status"]["podIP"],
            name=pod["metadata"]["name"],
            namespace=space,
            labels=pod["metadata"].get("labels") or {},
            namespace_labels=labels[space],
        )
        for pod in super_cluster.kubectl.items("pods", "-n", space)
        if pod["status"].get("podIP")
    ]


def test_its_policy_leaves_the_way_to_the_api_and_to_dns_and_no_other(
    installed: TenantAdmin, tenant_b: TenantAdmin, super_cluster: SuperClusterAdmin
):
    labels = {
        item["metadata"]["name"]: item["metadata"]["labels"]
        for item in super_cluster.kubectl.items("namespaces")
    }
    space = installed.super_namespace(HOME)
    policies = super_cluster.kubectl.items("networkpolicies", "-n", space)
    found = {policy["metadata"]["name"] for policy in policies}
    assert found == {
        "deny-all",
        *names.DEFAULT_POLICIES,
    }  # ours select no pod that deny-all selects
    own = hosts(super_cluster, labels, space)
    assert len(own) == 3
    root = hosts(super_cluster, labels, installed.root)
    api = [pod for pod in root if pod.name.startswith("apiserver-")]
    dns = [pod for pod in root if pod.name.startswith("coredns-")]
    assert api, root
    assert dns, root
    others = [pod for pod in root if pod not in [*api, *dns]]
    for neighbour in (tenant_b.root, "vc-manager", "kube-system"):
        others += hosts(super_cluster, labels, neighbour)
    others += [*own, NetworkHost("192.0.2.1")]
    ports = [API_PORT, *DNS_PORTS, WEBHOOK_PORT, NetworkPort(443)]

    def allowed(source: NetworkHost, target: NetworkHost, port: NetworkPort) -> bool:
        return policy_matrix.allowed(policies, source, target, port)

    for pod in own:
        assert all(allowed(pod, server, API_PORT) for server in api)
        assert all(allowed(pod, server, port) for server in dns for port in DNS_PORTS)
        assert all(allowed(server, pod, WEBHOOK_PORT) for server in api)
        for other in others:
            for port in ports:
                assert other is pod or not allowed(pod, other, port), (pod, other, port)
                assert other is pod or not allowed(other, pod, port), (other, pod, port)
        for server in dns:
            assert not allowed(server, pod, WEBHOOK_PORT)
