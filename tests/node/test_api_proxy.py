"""Two tenants behind one node port: kubectl, a watch and exec through the API proxy.

The proxy has no base domain here, so that it changes no other tenant of the shared cluster.
"""

import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner, until
from tests.support.tls_sockets import PATIENCE_SECONDS
from tools.testbed import chart
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

PORT = 30443
NAMES = ("proxied-a", "proxied-b")


@dataclass(frozen=True, kw_only=True)
class Proxied:
    """Two tenants, and the address of the proxy."""

    tenants: tuple[TenantAdmin, ...]
    address: str

    def connect(self, name: str | None) -> bytes:
        """Return the certificate behind a server name. Raises OSError if it is refused."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the certificate is compared, and nothing is sent
        with (
            socket.create_connection((self.address, PORT), timeout=PATIENCE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=name) as peer,
        ):
            return peer.getpeercert(binary_form=True) or b""


@pytest.fixture(scope="module")
def proxied(
    super_cluster: SuperClusterAdmin, make_tenant, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    """Install the proxy, and give two tenants a host name."""
    nodes = super_cluster.kubectl.items("nodes")
    address = next(
        each["address"] for each in nodes[0]["status"]["addresses"] if each["type"] == "InternalIP"
    )
    tenants = [make_tenant(name) for name in NAMES]
    values = (
        "apiProxy.enabled=true",
        f"apiProxy.service.type=NodePort,apiProxy.service.nodePort={PORT}",
        f"apiProxy.address={address}",
    )
    try:
        chart.install(
            super_cluster.cluster, StepPrinter(), values=(*chart.KUBELET_UPSTREAM, *values)
        )
        rollout = ("-n", COMPONENTS, "rollout", "status", "deployment/api-proxy", "--timeout=180s")
        super_cluster.kubectl.run(*rollout, timeout=200)
        found = [
            give_host(super_cluster, tenant, tmp_path_factory.mktemp(tenant.name))
            for tenant in tenants
        ]
        yield Proxied(tenants=tuple(found), address=address)
    finally:
        chart.install(
            super_cluster.cluster,
            StepPrinter(),
            values=(*chart.KUBELET_UPSTREAM, "apiProxy.enabled=false"),
        )


def host_of(name: str) -> str:
    """Return the host name of a tenant."""
    return f"{name}.example.com"


def give_host(super_cluster: SuperClusterAdmin, tenant: TenantAdmin, folder: Path) -> TenantAdmin:
    """Return a tenant with a kubeconfig of the proxy."""
    spec = json.dumps({"spec": {"endpoint": {"hostname": host_of(tenant.name)}}})
    cluster = f"virtualcluster/{tenant.name}"
    super_cluster.kubectl.run("patch", cluster, "--type=merge", "-p", spec)
    condition = "--for=condition=HostnameAccepted"
    super_cluster.kubectl.run("wait", cluster, condition, "--timeout=90s")
    file = folder / "kubeconfig"

    def is_written() -> bool:
        super_cluster.kubectl.run("vc", "kubeconfig", tenant.name, "-o", str(file), "--force")
        return f":{PORT}" in file.read_text()

    until(is_written, f"a kubeconfig of {tenant.name} with the proxy")
    kubectl = KubectlRunner(kubeconfig=file, path=tenant.kubectl.path)
    until(lambda: kubectl.call("get", "--raw", "/readyz").code == 0, "the tenant by the proxy")
    return replace(tenant, kubectl=kubectl)


def test_each_kubeconfig_reaches_its_own_tenant_by_the_same_address(proxied: Proxied):
    servers, uids = set(), set()
    for tenant in proxied.tenants:
        config = json.loads(tenant.kubectl.run("config", "view", "--raw", "-o", "json"))
        cluster = config["clusters"][0]["cluster"]
        servers.add(cluster["server"])
        assert cluster["tls-server-name"] == host_of(tenant.name)
        uids.add(tenant.kubectl.get("namespace", "kube-system")["metadata"]["uid"])
    assert servers == {f"https://{proxied.address}:{PORT}"}
    assert len(uids) == 2


def test_the_name_chooses_the_tenant_and_other_names_are_refused(proxied: Proxied):
    certificates = {proxied.connect(host_of(name)) for name in NAMES}
    assert len(certificates) == 2
    for name in ("unknown.example.com", f"x.{host_of(NAMES[0])}", None):
        with pytest.raises(OSError):
            proxied.connect(name)


def test_exec_and_a_watch_outlive_the_replacement_of_both_pods(
    proxied: Proxied, super_cluster: SuperClusterAdmin
):
    first, second = (each.kubectl for each in proxied.tenants)
    first.apply(node_objects.sleeper("talker"))
    first.run("wait", "--for=condition=Ready", "pod/talker", "--timeout=90s")
    assert first.run("exec", "talker", "--", "echo", "hello").strip() == "hello"
    script = "echo ready; read word; echo got $word"
    with (
        first.running("exec", "-i", "talker", "--", "sh", "-c", script) as command,
        second.running("get", "configmaps", "-w", "-o", "name") as watch,
    ):
        assert command.stdout is not None
        assert command.stdin is not None
        assert watch.stdout is not None
        assert command.stdout.readline() == "ready\n"
        assert watch.stdout.readline().startswith("configmap/")
        own = ("-n", COMPONENTS)
        super_cluster.kubectl.run(*own, "rollout", "restart", "deployment/api-proxy")
        failed = []

        def is_replaced() -> bool:
            for kubectl in (first, second):
                done = kubectl.call("get", "namespaces", "-o", "name")
                if done.code != 0:
                    failed.append(done.err)
            words = ("rollout", "status", "deployment/api-proxy", "--watch=false")
            return "successfully" in super_cluster.kubectl.run(*own, *words)

        until(is_replaced, "new pods of the proxy", seconds=180)
        assert failed == []
        command.stdin.write("again\n")
        command.stdin.flush()
        assert command.stdout.readline() == "got again\n"
        second.run("create", "configmap", "late")
        assert any(line == "configmap/late\n" for line in iter(watch.stdout.readline, ""))
    first.run("delete", "pod", "talker", "--wait=false")


def test_a_second_tenant_cannot_take_the_name(proxied: Proxied, super_cluster: SuperClusterAdmin):
    thief = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": "thief", "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36", "endpoint": {"hostname": host_of(NAMES[0])}},
    }
    before = proxied.connect(host_of(NAMES[0]))
    super_cluster.kubectl.apply(thief)
    try:
        found = until(
            lambda: super_cluster.condition("thief", "HostnameAccepted"), "the condition", 90
        )
        assert (found["status"], found["reason"]) == ("False", "HostnameTaken")
        assert proxied.connect(host_of(NAMES[0])) == before
    finally:
        super_cluster.kubectl.run("delete", "virtualcluster", "thief", timeout=300)
