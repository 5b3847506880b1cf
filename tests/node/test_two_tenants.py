"""Two tenants with equal names at once: each sees, reaches and reads only its own."""

import base64
import json
import subprocess

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "twins"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


@pytest.fixture(scope="module")
def twins(tenant_a: TenantAdmin, tenant_b: TenantAdmin):
    """The same namespace and pod in both tenants."""
    both = (tenant_a, tenant_b)
    for tenant in both:
        tenant.kubectl.run("create", "namespace", SPACE)
        tenant.kubectl.apply(
            node_objects.sleeper("same", namespace=SPACE, words=f"I am {tenant.name}")
        )
    for tenant in both:
        tenant.kubectl.run(
            "-n", SPACE, "wait", "--for=condition=Ready", "pod/same", "--timeout=90s"
        )
    yield both
    for tenant in both:
        tenant.kubectl.run("delete", "namespace", SPACE, timeout=120)


def test_each_sees_only_its_own(twins, super_cluster: SuperClusterAdmin):
    pods = {}
    for tenant in twins:
        found = tenant.kubectl.get("pod", "same", "-n", SPACE)
        assert tenant.kubectl.run("-n", SPACE, "logs", "same").strip() == f"I am {tenant.name}"
        assert tenant.kubectl.names("pods", "-n", SPACE) == ["same"]
        pods[tenant.name] = found["status"]["podIP"]
    assert len(set(pods.values())) == 2
    assert len(super_cluster.kubectl.items("pods", "-A", "-l", "app=same")) == 2


def test_each_token_opens_its_own_api_alone(twins, super_cluster: SuperClusterAdmin, tmp_path):
    for tenant, other in (twins, twins[::-1]):
        token = tenant.kubectl.run("-n", SPACE, "exec", "same", "--", "cat", TOKEN)
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert claims["kubernetes.io"]["namespace"] == SPACE
        assert claims["exp"] - claims["iat"] <= 7200 + 60
        answers = {}
        for name, kubectl in (
            ("own", tenant.kubectl),
            ("other", other.kubectl),
            ("super", super_cluster.kubectl),
        ):
            bare = without_credentials(kubectl, tmp_path / f"{tenant.name}-{name}")
            answers[name] = bare.call("--token", token, "auth", "whoami", "-o", "json")
        assert answers["own"].code == 0, answers["own"].err
        who = json.loads(answers["own"].out)["status"]["userInfo"]["username"]
        assert who == f"system:serviceaccount:{SPACE}:default"
        for name in ("other", "super"):
            assert answers[name].code != 0
            assert "Unauthorized" in answers[name].err or "must be logged in" in answers[name].err


def without_credentials(kubectl, target):
    """Return the same cluster without the user of its kubeconfig."""
    config = json.loads(kubectl.run("config", "view", "--raw", "-o", "json"))
    config["users"] = [{"name": user["name"], "user": {}} for user in config["users"]]
    target.write_text(json.dumps(config))
    target.chmod(0o600)
    return type(kubectl)(kubeconfig=target, path=kubectl.path)


def test_logs_of_the_other_are_refused(twins, super_cluster: SuperClusterAdmin, tmp_path):
    """The agent goes by the certificate, whatever the path says."""
    tenant, other = twins
    node = super_cluster.kubectl.get("pod", "same", "-n", other.super_namespace(SPACE))
    agents = super_cluster.kubectl.items(
        "pods", "-n", "vc-manager", "-l", "app.kubernetes.io/name=vn-agent"
    )
    agent = next(a for a in agents if a["spec"]["nodeName"] == node["spec"]["nodeName"])
    files = kubelet_client_files(super_cluster, tenant, tmp_path)
    address = f"https://{agent['status']['podIP']}:10550"

    def ask(namespace: str) -> list[str]:
        path = f"{address}/containerLogs/{namespace}/same/main"
        words = (*files, "--write-out", "\n%{http_code}", path)
        done = super_cluster.curl_from_node(node["spec"]["nodeName"], *words)
        return [line for line in done.stdout.splitlines() if line]

    assert ask(SPACE) == [f"I am {tenant.name}", "200"]
    for namespace in (other.super_namespace(SPACE), other.root, "kube-system", f"x-{SPACE}"):
        answer = ask(namespace)
        assert answer[-1] in {"403", "404"}, (namespace, answer)
        assert f"I am {other.name}" not in answer


def kubelet_client_files(
    super_cluster: SuperClusterAdmin, tenant: TenantAdmin, folder
) -> list[str]:
    """Return curl's options for a tenant apiserver's own identity, read from its Secrets."""
    secrets = super_cluster.kubectl.items("secrets", "-n", tenant.root)
    found = next(s for s in secrets if "kubelet-client" in s["metadata"]["name"])
    options: list[str] = []
    for key, option in (("tls.crt", "--cert"), ("tls.key", "--key")):
        path = folder / f"{tenant.name}-{key}"
        path.write_bytes(base64.b64decode(found["data"][key]))
        path.chmod(0o600)
        options += [option, str(path)]
    trust = super_cluster.kubectl.get("secret", "vn-agent-serving-ca", "-n", "vc-manager")
    ca = folder / "serving-ca.crt"
    ca.write_bytes(base64.b64decode(trust["data"]["tls.crt"]))
    return [*options, "--cacert", str(ca)]


def test_a_minted_certificate_does_not_open_the_agent(
    twins, super_cluster: SuperClusterAdmin, tmp_path
):
    """A tenant admin has its own signer sign the other's identity. The agent must not care."""
    tenant, other = twins
    key = tmp_path / "minted.key"
    request = tmp_path / "minted.csr"
    other_uid = super_cluster.virtual_cluster(other.name)["metadata"]["uid"]
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        + ["-nodes", "-keyout", str(key), "-out", str(request), "-subj", f"/CN={other.root}"]
        + ["-addext", f"subjectAltName=URI:vc://{other_uid}/{other.root}"],
        check=True,
        capture_output=True,
    )
    tenant.kubectl.apply(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "minted"},
            "spec": {
                "request": base64.b64encode(request.read_bytes()).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
            },
        }
    )
    tenant.kubectl.run("certificate", "approve", "minted")
    signed = until(
        lambda: tenant.kubectl.get("csr", "minted").get("status", {}).get("certificate"),
        "the minted certificate",
    )
    certificate = tmp_path / "minted.crt"
    certificate.write_bytes(base64.b64decode(signed))
    agent = super_cluster.kubectl.items(
        "pods", "-n", "vc-manager", "-l", "app.kubernetes.io/name=vn-agent"
    )[0]
    words = ("--insecure", "--cert", str(certificate), "--key", str(key))
    path = f"https://{agent['status']['podIP']}:10550/containerLogs/{SPACE}/same/main"
    done = super_cluster.curl_from_node(
        agent["spec"]["nodeName"], *words, "--write-out", "%{http_code}", path
    )
    refused = "alert" in done.stderr or done.stdout.endswith("401")
    assert refused, (done.stdout, done.stderr)  # and not out of reach
    assert f"I am {other.name}" not in done.stdout
