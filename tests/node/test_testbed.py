"""The embedded super cluster itself: what works on it, and that it leaves nothing behind.

Hazard: it may run beside other clusters, so it looks for the traces of its own ones only.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.testbed.cluster import leftovers, network
from tools.testbed.cluster.handle import REPOSITORY, ClusterHandle
from tools.testbed.progress import StepPrinter

pytestmark = pytest.mark.node

WEB = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: pages}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: web}}
spec:
  containers:
    - name: web
      image: busybox:latest
      command: [sh, -c, "echo started; echo hello > /pages/index.html; httpd -f -p 8080 -h /pages"]
      volumeMounts: [{name: pages, mountPath: /pages}]
  volumes:
    - name: pages
      persistentVolumeClaim: {claimName: pages}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""

OWN_TOKEN = """
import ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=folder + "ca.crt")
headers = {"Authorization": "Bearer " + open(folder + "token").read()}
request = urllib.request.Request("https://kubernetes.default.svc/version", headers=headers)
print(urllib.request.urlopen(request, context=context).status)
"""

KubectlFunction = Callable[..., str]


def kubectl_of(cluster: ClusterHandle) -> KubectlFunction:
    environment = {**os.environ, **cluster.environment()}

    def kubectl(*words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["kubectl", *words],
            env=environment,
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    return kubectl


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterHandle]:
    """One cluster of two nodes for the tests of what works on it."""
    cluster = ClusterHandle("testbed", nodes=2)
    cluster.up(StepPrinter())
    yield cluster
    link = cluster.topology.host_link
    cluster.down()
    assert leftovers.find_of("testbed") == []
    assert link not in network.links()


@pytest.fixture(scope="module")
def kubectl(cluster: ClusterHandle) -> KubectlFunction:
    kubectl = kubectl_of(cluster)
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=Ready", "pod/server", "--timeout=60s")
    return kubectl


def fetch(url: str) -> str:
    """Read a page from the host, without whatever proxy the environment names."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 20
    while True:
        try:
            with opener.open(url, timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.2)


def test_every_node_is_ready_with_its_own_range(cluster: ClusterHandle, kubectl: KubectlFunction):
    items = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    expected = {one.name: str(one.pods) for one in cluster.topology.nodes}
    assert {item["metadata"]["name"]: item["spec"]["podCIDR"] for item in items} == expected


def test_a_pod_gets_a_volume_of_the_default_class(kubectl: KubectlFunction):
    claim = json.loads(kubectl("get", "pvc", "pages", "-o", "json"))
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "local-path")


def test_logs_and_exec_reach_the_kubelet(kubectl: KubectlFunction):
    assert kubectl("logs", "server") == "started\n"
    assert kubectl("exec", "-i", "server", "--", "cat", stdin="through") == "through"


def test_names_of_services_resolve_in_pods(kubectl: KubectlFunction):
    address = kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    output = kubectl("exec", "server", "--", "nslookup", "web.default.svc.cluster.local")
    assert address in output


def test_names_of_the_outside_world_fail_at_once(kubectl: KubectlFunction):
    started = time.monotonic()
    kubectl("exec", "server", "--", "sh", "-c", "! nslookup example.com")
    assert time.monotonic() - started < 3


def test_the_host_reaches_pods_services_and_node_ports(
    cluster: ClusterHandle, kubectl: KubectlFunction
):
    service = json.loads(kubectl("get", "service", "web", "-o", "json"))["spec"]
    pod = kubectl("get", "pod", "server", "-o", "jsonpath={.status.podIP}")
    assert fetch(f"http://{pod}:8080/") == "hello\n"
    assert fetch(f"http://{service['clusterIP']}/") == "hello\n"
    for node in cluster.topology.nodes:
        assert fetch(f"http://{node.ip}:{service['ports'][0]['nodePort']}/") == "hello\n"


def run_once(
    kubectl: KubectlFunction, name: str, image: str, command: list[str], node: str | None = None
):
    """Run a pod to its end and return its log. `kubectl run -i` may print it twice."""
    container = {"name": "main", "image": image, "command": command}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    done = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl("wait", done, f"pod/{name}", "--timeout=60s")
    output = kubectl("logs", name)
    kubectl("delete", "pod", name, "--now")
    return output


def test_pods_of_different_nodes_reach_each_other(cluster: ClusterHandle, kubectl: KubectlFunction):
    command = ["wget", "-q", "-T", "10", "-O-", "http://web.default.svc.cluster.local"]
    for node in cluster.topology.nodes:
        name = f"visitor-{node.number}"
        assert run_once(kubectl, name, "busybox", command, node.name) == "hello\n"


def test_a_pod_talks_to_the_api_with_its_own_token(kubectl: KubectlFunction):
    assert run_once(kubectl, "token", "python:3-slim", ["python3", "-c", OWN_TOKEN]) == "200\n"


def test_an_image_that_does_not_exist_is_a_quick_refusal(kubectl: KubectlFunction):
    kubectl("run", "nonsense", "--image=example.com/no/such:image", "--restart=Never")
    state = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    deadline = time.monotonic() + 15
    while "Pull" not in kubectl("get", "pod", "nonsense", "-o", state):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    kubectl("delete", "pod", "nonsense", "--now")


def test_a_component_can_be_stopped_and_started(cluster: ClusterHandle, kubectl: KubectlFunction):
    cluster.stop("kube-apiserver")
    assert not cluster.api.is_ready()
    cluster.start("kube-apiserver")
    cluster.wait_until_ready()
    assert "server" in kubectl("get", "pods", "-o", "name")


def test_the_audit_log_has_every_write(cluster: ClusterHandle, kubectl: KubectlFunction):
    kubectl("create", "configmap", "audited")
    lines = cluster.audit_log.read_text().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    written = [one for one in entries if one.get("objectRef", {}).get("name") == "audited"]
    assert [(one["verb"], one["stage"]) for one in written] == [("create", "ResponseComplete")]
    assert not [one for one in entries if one["verb"] in ("get", "list")]


def killed_after(seconds: float, *words: str) -> None:
    """Run a command of the testbed and kill it, whatever it is doing by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.testbed", *words],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def victim() -> Iterator[ClusterHandle]:
    cluster = ClusterHandle("killed")
    yield cluster
    cluster.down()


def test_up_works_after_runs_that_were_killed(victim: ClusterHandle):
    for seconds in (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.5, 3.5, 5.0):
        killed_after(seconds, "up", "--no-chart", "--name", victim.name)
    victim.up(StepPrinter())
    assert victim.is_up()
    link = victim.topology.host_link
    killed_after(0.35, "down", "--name", victim.name)
    victim.down()
    assert leftovers.find_of(victim.name) == []
    assert link not in network.links()
    assert not victim.kubeconfig.exists()


def test_all_is_gone_with_the_supervisor(victim: ClusterHandle):
    victim.up(StepPrinter())
    folder = victim.places.root
    shims = [line for line in leftovers.find_of(victim.name) if "containerd-shim" in line]
    assert shims
    os.kill(victim.control.pid(), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(line.startswith("process") for line in leftovers.find_of(victim.name)):
        assert time.monotonic() < deadline, leftovers.find_of(victim.name)
        time.sleep(0.1)
    assert not victim.is_up()
    assert [
        line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line
    ] == []
