"""vn-agent alone between a real tenant apiserver and a real kubelet.

The syncer's part is done by hand: pods are made in the super cluster with the ownership record, and
the tenant has its own pod and a node whose address is the agent's. So every byte goes the real way,
kubectl, apiserver, agent, kubelet, containerd, and what fails here fails for tenants.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenancy import marks, names
from tests.node import objects
from tests.node.kubectl import Kubectl, until
from tests.support.controlplane import ControlPlane
from tests.support.processes import Process, free_port
from tests.testbed.cluster import Cluster
from tests.testbed.progress import Progress
from vcmanager.pki.authority import Pair, Subject, make_authority, make_leaf

pytestmark = pytest.mark.node

SPACE = "agent-test"
"""Super namespace of the agent's account."""
YEAR = timedelta(days=365)
NODE = "virtual"
SPDY, WEBSOCKET = "spdy", "websocket"
"""What the apiserver speaks to the kubelet: the latter where the node declares it."""
TALKER = """
n=$(cat /state/starts 2>/dev/null || echo 0); echo $((n + 1)) > /state/starts
trap 'exit 0' TERM
for i in 1 2 3 4 5; do echo "start $n line $i"; done
echo "start $n trouble" >&2
[ "$n" = 0 ] && exit 3
while :; do sleep 0.2; done
"""
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
TICKER = "trap 'exit 0' TERM; i=0; while :; do i=$((i + 1)); echo tick $i; sleep 0.1; done"


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant apiserver whose kubelet calls go to the agent."""

    kubectl: Kubectl
    vc_uid: str
    root: str
    identity: Path
    """Folder with `client.crt` and `client.key`, the apiserver's identity towards agents."""

    def super_namespace(self, namespace: str = "default") -> str:
        return names.super_namespace(self.root, self.vc_uid, namespace)


@dataclass(frozen=True, kw_only=True)
class Rig:
    """Everything around the agent."""

    super_kubectl: Kubectl
    folder: Path
    client_authority: Pair
    serving_authority: Pair
    agent: Process
    port: int
    health_port: int
    node: str
    node_ip: str
    tenant: Tenant
    other: Tenant

    def place(self, tenant: Tenant, pod: dict[str, Any], **record: str) -> None:
        """Do the syncer's work: the super pod with its record, and the tenant's own pod."""
        name = pod["metadata"]["name"]
        containers = [c["name"] for c in pod["spec"]["containers"]]
        annotations = {
            marks.CLUSTER: tenant.root,
            marks.VC_UID: tenant.vc_uid,
            marks.UID: str(uuid.uuid4()),
            marks.NAMESPACE: "default",
            marks.CONTAINERS: ",".join(containers),
            **record,
        }
        twin = {**pod, "metadata": {"name": name, "namespace": "default"}}
        twin["spec"] = {**pod["spec"], "nodeName": NODE}
        tenant.kubectl.apply(twin)
        tenant.kubectl.run(
            *("patch", "pod", name, "--subresource=status", "--type=merge"),
            *("-p", '{"status": {"phase": "Running"}}'),
        )
        space = {"name": name, "namespace": tenant.super_namespace(), "annotations": annotations}
        spec = {**pod["spec"], "automountServiceAccountToken": False}
        self.super_kubectl.apply({**pod, "metadata": space, "spec": spec})

    def wait(self, tenant: Tenant, name: str, phase: str = "Running") -> dict[str, Any]:
        """Wait for a super pod's phase, and return the pod."""

        def look() -> dict[str, Any] | None:
            found = self.super_kubectl.get("pod", name, "-n", tenant.super_namespace())
            return found if found["status"]["phase"] == phase else None

        return until(look, f"{name} is {phase}")

    def curl(self, path: str, *options: str, tenant: Tenant | None = None) -> tuple[int, str]:
        """Ask the agent directly, as a tenant; returns status (0: no answer) and body."""
        identity = (tenant or self.tenant).identity
        done = subprocess.run(
            ["curl", "--silent", "--max-time", "20", "--path-as-is", "--http1.1"]
            + ["--cert", str(identity / "client.crt"), "--key", str(identity / "client.key")]
            + ["--cacert", str(self.folder / "serving-ca.crt"), "--write-out", "\n%{http_code}"]
            + [*options, f"https://127.0.0.1:{self.port}{path}"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body

    def audit(self) -> list[dict[str, Any]]:
        """What the agent has recorded."""
        lines = self.agent.log.read_text().splitlines()
        return [line for text in lines if (line := json.loads(text))["event"] == "session"]

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        url = f"http://127.0.0.1:{self.health_port}/metrics"
        text = urllib.request.urlopen(url, timeout=5).read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, found))


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def below() -> Iterator[Kubectl]:
    """The super cluster; one that is up already is used and left."""
    cluster = Cluster(os.environ.get("SUPER_CLUSTER", "test"))
    was_up = cluster.is_up()
    cluster.up(Progress())
    try:
        yield Kubectl(kubeconfig=cluster.kubeconfig, path=cluster.path())
    finally:
        if not was_up and "KEEP" not in os.environ:
            cluster.down()


@pytest.fixture(scope="module")
def rig(below: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """An agent on the host, and two tenants."""
    folder = tmp_path_factory.mktemp("agent")
    now = datetime.now(UTC)
    clients = make_authority("vn-agent-client", now=now)
    servers = make_authority("vn-agent-serving", now=now)
    serving = make_leaf(
        servers,
        Subject(common_name="vn-agent", addresses=("127.0.0.1",), usages=frozenset({"server"})),
        lifetime=YEAR,
        now=now,
    )
    _write(folder / "client-ca.crt", clients.certificate)
    _write(folder / "serving-ca.crt", servers.certificate)
    _write(folder / "serving.crt", serving.certificate)
    _write(folder / "serving.key", serving.key)
    node = below.items("nodes")[0]
    addresses = {a["type"]: a["address"] for a in node["status"]["addresses"]}
    _make_account(below, folder)
    port, health_port = free_port(), free_port()
    agent = _start_agent(folder, addresses["InternalIP"], port, health_port)
    planes: list[ControlPlane] = []
    tenants: list[Tenant] = []
    try:
        for name in ("one", "two"):
            tenant, plane = _make_tenant(name, folder, below, clients, port)
            planes.append(plane)
            tenants.append(tenant)
        until(lambda: _is_ready(health_port), "the agent is ready")
        yield Rig(
            super_kubectl=below,
            folder=folder,
            client_authority=clients,
            serving_authority=servers,
            agent=agent,
            port=port,
            health_port=health_port,
            node=node["metadata"]["name"],
            node_ip=addresses["InternalIP"],
            tenant=tenants[0],
            other=tenants[1],
        )
    finally:
        for plane in planes:
            asyncio.run(plane.stop())
        asyncio.run(agent.stop())
        for tenant in tenants:
            below.run("delete", "namespace", tenant.super_namespace(), "--wait=false")
        below.run("delete", "clusterrole,clusterrolebinding", SPACE)
        below.run("delete", "namespace", SPACE)  # waits: its name is used again


def _is_ready(health_port: int) -> bool:
    try:
        url = f"http://127.0.0.1:{health_port}/readyz"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def _make_account(below: Kubectl, folder: Path) -> None:
    """Make the agent's account as the chart does, and a token of it."""
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": SPACE}
    below.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "agent", "namespace": SPACE},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": SPACE},
            "rules": [
                {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get", "create"]}
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": SPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": SPACE,
            },
            "subjects": [subject],
        },
    )
    token = below.run("create", "token", "agent", "-n", SPACE, "--duration=2h")
    _write(folder / "token", token.encode())
    roots = below.get("configmap", "kube-root-ca.crt", "-n", "default")
    _write(folder / "kubelet-ca.crt", roots["data"]["ca.crt"].encode())


def _start_agent(
    folder: Path, kubelet: str, port: int, health_port: int, *more: str, log: str = "agent.log"
) -> Process:
    options = {
        "pod-name": "vn-agent-test",
        "pod-ip": "127.0.0.1",
        "port": port,
        "health-port": health_port,
        "client-ca-file": folder / "client-ca.crt",
        "kubelet-host": kubelet,
        "kubelet-ca-file": folder / "kubelet-ca.crt",
        "token-file": folder / "token",
        "api-host": "127.0.0.1",
        "tls-cert-file": folder / "serving.crt",
        "tls-private-key-file": folder / "serving.key",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return Process([sys.executable, "-m", "vnagent", *flags, *more], folder / log)


def _make_tenant(
    name: str, folder: Path, below: Kubectl, clients: Pair, port: int
) -> tuple[Tenant, ControlPlane]:
    now = datetime.now(UTC)
    vc_uid = str(uuid.uuid4())
    root = names.root_namespace("default", name, vc_uid)
    identity = folder / name
    identity.mkdir()
    leaf = make_leaf(
        clients,
        Subject(
            common_name="kube-apiserver-kubelet-client",
            uris=(f"vc://{vc_uid}/{root}",),
            usages=frozenset({"client"}),
        ),
        lifetime=YEAR,
        now=now,
    )
    arguments = {
        "kubelet-client-certificate": str(_write(identity / "client.crt", leaf.certificate)),
        "kubelet-client-key": str(_write(identity / "client.key", leaf.key)),
        "kubelet-certificate-authority": str(folder / "serving-ca.crt"),
        "kubelet-preferred-address-types": f"{marks.AGENT_ADDRESS},InternalIP",
    }
    plane = ControlPlane(folder / f"{name}-plane", name=name, api_args=arguments)
    asyncio.run(plane.start())
    kubeconfig = _write(identity / "kubeconfig", plane.kubeconfig())
    tenant = Tenant(
        kubectl=Kubectl(kubeconfig=kubeconfig, path=below.path),
        vc_uid=vc_uid,
        root=root,
        identity=identity,
    )
    space = tenant.super_namespace()
    below.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    tenant.kubectl.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    addresses = [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": marks.AGENT_ADDRESS, "address": "127.0.0.1"},
    ]
    _patch_node(tenant, addresses=addresses, daemonEndpoints={"kubeletEndpoint": {"Port": port}})
    return tenant, plane


def _patch_node(tenant: Tenant, **status: Any) -> None:
    tenant.kubectl.run(
        *("patch", "node", NODE, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )


@pytest.fixture(scope="module")
def pods(rig: Rig) -> dict[str, dict[str, Any]]:
    """Pods of the first tenant that the tests share, by name; all run."""
    state = [{"name": "state", "emptyDir": {}}]
    talker = objects.pod("talker", TALKER, volumes=state)
    talker["spec"]["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    talker["spec"]["containers"].append(objects.container(SLEEPER + " # side", "side"))
    tool = objects.pod("tool", SLEEPER)
    listener = objects.pod("listener", "while :; do echo hi there | nc -l -p 8080; done")
    reader = objects.pod("reader", "while read line; do echo got $line; done; sleep 600")
    reader["spec"]["containers"][0]["stdin"] = True
    for one in (talker, tool, listener, reader):
        rig.place(rig.tenant, one)
    found = {name: rig.wait(rig.tenant, name) for name in ("tool", "listener", "reader")}

    def restarted() -> dict[str, Any] | None:
        pod = rig.wait(rig.tenant, "talker")
        main = next(c for c in pod["status"]["containerStatuses"] if c["name"] == "main")
        return pod if main["restartCount"] == 1 and main["state"].get("running") else None

    found["talker"] = until(restarted, "talker has restarted")
    return found


@pytest.fixture(params=[(SPDY, "true"), (WEBSOCKET, "true"), (SPDY, "false")], ids=str)
def leg(rig: Rig, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """REL-94: each way in which a stream can come along."""
    towards_kubelet, kubectl_websockets = request.param
    declared = ["ExtendWebSocketsToKubelet"] if towards_kubelet == WEBSOCKET else []
    _patch_node(rig.tenant, declaredFeatures=declared)
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", kubectl_websockets)
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", kubectl_websockets)
    return towards_kubelet


# Logs.


def test_logs_are_the_kubelets(rig, pods):
    """Without options everything comes, of the container that was named."""
    logs = rig.tenant.kubectl.run("logs", "talker", "-c", "main").splitlines()
    assert sorted(logs) == sorted([*(f"start 1 line {i}" for i in range(1, 6)), "start 1 trouble"])
    assert rig.tenant.kubectl.run("logs", "talker", "-c", "side") == ""


def test_every_option_of_logs_arrives(rig, pods):
    """Each option is checked by its effect."""
    kubectl = rig.tenant.kubectl

    def logs(*options: str) -> list[str]:
        return kubectl.run("logs", "talker", "-c", "main", *options).splitlines()

    everything = logs()
    assert logs("--tail=2") == everything[-2:]
    assert logs("--tail=0") == []
    assert "start 0 line 1" in logs("--previous")
    assert (
        kubectl.run("logs", "talker", "-c", "main", "--limit-bytes=7") == "\n".join(everything)[:7]
    )
    stamped = logs("--timestamps")
    assert [line.split(" ", 1)[1] for line in stamped] == everything
    stamps = [line.split(" ", 1)[0] for line in stamped]
    later = max(stamps)[:19]
    moment = datetime.fromisoformat(later).replace(tzinfo=UTC) + timedelta(seconds=1)
    assert logs(f"--since-time={moment.isoformat()}") == []
    assert logs(f"--since-time={(moment - timedelta(hours=1)).isoformat()}") == everything
    assert logs("--since=1h") == everything
    time.sleep(1.1)
    assert logs("--since=1s") == []
    # Kubelets choose between the outputs behind a feature gate that is off: the option arrives.
    path = "/containerLogs/default/talker/main?stream="
    assert rig.curl(path + "All")[1].splitlines() == everything
    status, body = rig.curl(path + "Stderr")
    assert (status, "PodLogsQuerySplitStreams" in body) == (400, True)


def test_following_a_log_ends_with_its_reader(rig):
    """`logs -f` shows lines as they come, and the kubelet is let go when the reader leaves."""
    rig.place(rig.tenant, objects.pod("ticker", TICKER))
    rig.wait(rig.tenant, "ticker")
    environment = {**os.environ, "KUBECONFIG": str(rig.tenant.kubectl.kubeconfig)}
    environment["PATH"] = rig.tenant.kubectl.path
    before = rig.metric("vc_agent_open_streams")
    with subprocess.Popen(
        ["kubectl", "logs", "-f", "ticker"], env=environment, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        lines = [following.stdout.readline() for _ in range(20)]
        assert rig.metric("vc_agent_open_streams") == before + 1
        following.kill()
    numbers = [int(line.removeprefix("tick ")) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    until(lambda: rig.metric("vc_agent_open_streams") == before, "the stream has ended")
    last = rig.audit()[-1]
    assert (last["verb"], last["pod"], last["result"]) == ("logs", "ticker", "caller_gone")


def test_following_ends_when_the_container_does(rig):
    """A log that is followed to its end comes whole, and kubectl exits 0."""
    rig.place(rig.tenant, objects.pod("short", "for i in 1 2 3; do echo $i; sleep 0.5; done"))
    rig.super_kubectl.run(
        *("patch", "pod", "short", "-n", rig.tenant.super_namespace(), "--type=merge"),
        *("-p", '{"spec": {"activeDeadlineSeconds": 60}}'),
    )
    rig.wait(rig.tenant, "short")
    assert rig.tenant.kubectl.run("logs", "-f", "short").splitlines()[:3] == ["1", "2", "3"]


# Exec, attach, port-forward.


@pytest.mark.parametrize("code", [0, 1, 42, 137])
def test_exec_gives_the_exit_code(rig, pods, leg, code):
    """The command's exit code is kubectl's, its two outputs stay apart."""
    script = f"echo out; echo err >&2; exit {code}"
    done = rig.tenant.kubectl.call("exec", "tool", "--", "sh", "-c", script)
    assert done.code == code
    assert done.out == "out\n"
    assert done.err.splitlines()[0] == "err"


def test_exec_takes_input_to_its_end(rig, pods, leg):
    """REL-87: input that ends lets the command end, and its output comes whole."""
    text = "".join(f"line {i}\n" for i in range(50_000))
    done = rig.tenant.kubectl.call(
        "exec", "-i", "tool", "--", "sh", "-c", "cat | md5sum; cat /dev/null", stdin=text
    )
    assert done.out.split()[0] == hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - a check
    assert rig.tenant.kubectl.call("exec", "-i", "tool", "--", "cat", stdin=text).out == text


def test_exec_has_a_terminal(rig, pods, leg):
    """`-it` gives the command a terminal with the size of the caller's."""
    # The size comes on a stream of its own, and so maybe after the command has begun.
    command = "tty; until stty size | grep -w 33; do sleep 0.1; done; exit 7"
    done = rig.tenant.kubectl.terminal(
        f"stty rows 33 cols 111; timeout --foreground 20 kubectl exec -it tool -- sh -c '{command}'"
    )
    assert "/dev/pts/" in done.out
    assert "33 111" in done.out
    assert done.code == 7


def test_arguments_arrive_as_they_were_written(rig, pods, leg):
    """Spaces, quotes, percent signs, umlauts and empty words are not touched."""
    words = ["a b", "c&d=e", "%41%2F", "plus+plus", "\u00e4\u4e2d", "", "'\"", "x" * 20_000]
    done = rig.tenant.kubectl.call("exec", "tool", "--", "printf", "%s\\n", *words)
    assert done.out.split("\n")[:-1] == words


def test_exec_of_nothing_says_why(rig, pods, leg):
    """The runtime's own words reach the user."""
    done = rig.tenant.kubectl.call("exec", "tool", "--", "/no/such/program")
    assert done.code != 0
    assert "/no/such/program" in done.err


def test_attach_talks_to_the_main_process(rig, pods, leg):
    """Attach reads what the process writes and writes what it reads."""
    environment = {**os.environ, "KUBECONFIG": str(rig.tenant.kubectl.kubeconfig)}
    environment["PATH"] = rig.tenant.kubectl.path
    with subprocess.Popen(
        ["kubectl", "attach", "-i", "reader"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write("hello\n")
        assert attached.stdout.readline() == "got hello\n"
        attached.kill()


def test_ports_are_forwarded(rig, pods, leg):
    """A connection to the forwarded port reaches the container."""
    environment = {**os.environ, "KUBECONFIG": str(rig.tenant.kubectl.kubeconfig)}
    environment["PATH"] = rig.tenant.kubectl.path
    with subprocess.Popen(
        ["kubectl", "port-forward", "pod/listener", ":8080"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as forwarding:
        assert forwarding.stdout is not None
        port = int(forwarding.stdout.readline().rpartition("127.0.0.1:")[2].split()[0])

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                return connection.recv(100)

        assert until(ask, "the container's answer") == b"hi there\n"
        forwarding.kill()


def test_copies_are_whole(rig, pods, tmp_path):
    """`kubectl cp` both ways gives back the same bytes."""
    content = os.urandom(8 * 1024 * 1024)
    source = tmp_path / "source"
    source.write_bytes(content)
    kubectl = rig.tenant.kubectl
    kubectl.run("cp", str(source), "tool:/tmp/copy")
    kubectl.run("cp", "tool:/tmp/copy", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content


# Whose pods.


def test_the_others_pods_are_not_there(rig, pods):
    """Equal names, two tenants: each reaches its own; the other's super namespace is nobody's."""
    rig.place(rig.other, objects.pod("tool", "echo I belong to the other; " + SLEEPER))
    rig.wait(rig.other, "tool")
    status, body = rig.curl("/containerLogs/default/tool/main", tenant=rig.other)
    assert (status, body) == (200, "I belong to the other\n")
    assert rig.curl("/containerLogs/default/tool/main") == (200, "")
    for space in (rig.other.super_namespace(), rig.tenant.super_namespace(), "kube-system"):
        status, body = rig.curl(f"/containerLogs/{space}/tool/main")
        assert status == 404
        assert "belong" not in body
    assert rig.curl("/containerLogs/default/talker/main", tenant=rig.other)[0] == 404


def test_what_the_super_cluster_adds_is_out_of_reach(rig):
    """SEC-05, SEC-06: an injected container, and pods without the whole record."""
    injected = objects.pod("injected", SLEEPER)
    injected["spec"]["containers"].append(objects.container("echo secret; " + SLEEPER, "mesh"))
    rig.place(rig.tenant, injected, **{marks.CONTAINERS: "main"})
    rig.place(rig.tenant, objects.pod("bare", SLEEPER), **{marks.UID: ""})
    for name in ("injected", "bare"):
        rig.wait(rig.tenant, name)
    assert rig.curl("/containerLogs/default/injected/main")[0] == 200
    status, body = rig.curl("/containerLogs/default/injected/mesh")
    assert (status, "secret" in body) == (403, False)
    assert rig.curl("/containerLogs/default/bare/main")[0] == 404
    done = rig.tenant.kubectl.call("exec", "injected", "-c", "mesh", "--", "true")
    assert done.code != 0
    assert "no container 'mesh'" in done.err


def test_ports_of_the_host_are_not_forwarded(rig):
    """SEC-16: a pod on the host's network would open the node's loopback."""
    rig.place(rig.tenant, objects.pod("host", SLEEPER, hostNetwork=True))
    rig.wait(rig.tenant, "host")
    assert rig.curl("/containerLogs/default/host/main")[0] == 200
    upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: SPDY/3.1", "-X", "POST")
    status, body = rig.curl("/portForward/default/host", *upgrade)
    assert (status, "host's network" in body) == (403, True)


def test_a_uid_in_the_path_must_be_the_pods(rig, pods):
    """The tenant's UID is checked and becomes the super pod's."""
    own = pods["tool"]["metadata"]["annotations"][marks.UID]
    upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H")
    upgrade += ("Sec-WebSocket-Version: 13", "-H")
    key = "Sec-WebSocket-Key: " + base64.b64encode(bytes(16)).decode()
    query = "main?command=true&output=1"
    found = rig.curl(f"/exec/default/tool/{own}/{query}", *upgrade, key, "--max-time", "1")
    assert found[0] == 101
    assert rig.curl(f"/exec/default/tool/{uuid.uuid4()}/{query}", *upgrade, key)[0] == 404
    super_uid = pods["tool"]["metadata"]["uid"]
    assert rig.curl(f"/exec/default/tool/{super_uid}/{query}", *upgrade, key)[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/pods", "/runningpods/", "/stats/summary", "/metrics", "/metrics/cadvisor"),
        *("/metrics/resource", "/logs/", "/configz", "/spec/", "/checkpoint/default/tool/main"),
        *("/run/default/tool/main?cmd=id", "/debug/pprof/", "/debug/flags/v", "/healthz/ping"),
        *("/containerLogs/default/tool/..%2f..%2fpods", "/containerLogs/default/tool/main/"),
        *("/containerLogs/default//tool/main", "/containerLogs/../pods", "//pods", "/./pods"),
        *("/containerLogs/default/tool/main;x", "/containerLogs/default/tool/ma%69n"),
    ],
)
def test_nothing_else_is_served(rig, pods, path):
    """SEC-04, SEC-07: what is not a route is not there, the kubelet's own paths included."""
    assert rig.curl(path)[0] == 404


def test_a_missing_pod_is_looked_for_on_the_node(rig):
    """SEC-17: a pod that is not on this node is not there, and one that comes is found at once."""
    assert rig.curl("/containerLogs/default/late/main")[0] == 404
    rig.place(rig.tenant, objects.pod("late", "echo here I am; " + SLEEPER))
    rig.wait(rig.tenant, "late")
    assert rig.curl("/containerLogs/default/late/main") == (200, "here I am\n")


# Who calls.


def test_nobody_without_our_certificate(rig, pods, tmp_path):
    """SEC-01, SEC-02: no certificate, one of another authority, one without our URI."""
    address = f"https://127.0.0.1:{rig.port}/containerLogs/default/tool/main"
    authority = ["--cacert", str(rig.folder / "serving-ca.crt")]
    now = datetime.now(UTC)
    uri = f"vc://{rig.tenant.vc_uid}/{rig.tenant.root}"
    client = frozenset({"client"})
    strangers = make_authority("vn-agent-client", now=now)
    forged = Subject(common_name=rig.tenant.root, uris=(uri,), usages=client)
    nameless = Subject(common_name=rig.tenant.root, usages=client)
    server = Subject(common_name="x", uris=(uri,), usages=frozenset({"server"}))
    cases: dict[str, tuple[Pair, Subject]] = {
        "forged": (strangers, forged),
        "nameless": (rig.client_authority, nameless),
        "server": (rig.client_authority, server),
    }
    answers = {}
    for name, (signer, subject) in cases.items():
        leaf = make_leaf(signer, subject, lifetime=YEAR, now=now)
        files = ["--cert", str(_write(tmp_path / f"{name}.crt", leaf.certificate))]
        files += ["--key", str(_write(tmp_path / f"{name}.key", leaf.key))]
        answers[name] = _status(address, *authority, *files)
    answers["none"] = _status(address, *authority)
    assert answers == {"none": 0, "forged": 0, "server": 0, "nameless": 403}


def _status(address: str, *options: str) -> int:
    command = ["curl", "--silent", "--max-time", "10", "--write-out", "%{http_code}", *options]
    done = subprocess.run([*command, address], capture_output=True, text=True, check=False)
    return int(done.stdout[-3:])


def test_health_says_nothing_of_anybody(rig):
    """The health route answers tenants; the plain port shows no tenant and no pod."""
    assert rig.curl("/healthz") == (200, "ok\n")
    url = f"http://127.0.0.1:{rig.health_port}/metrics"
    text = urllib.request.urlopen(url, timeout=5).read().decode()
    assert "vc_agent_sessions_total" in text
    for word in (rig.tenant.root, rig.tenant.vc_uid, "tool", "talker"):
        assert word not in text


def test_sessions_are_written_down_without_their_commands(rig, pods):
    """One line each: tenant, pod, verb, bytes, duration, result."""
    rig.tenant.kubectl.run("exec", "tool", "--", "echo", "pa55word")
    line = until(
        lambda: next((a for a in reversed(rig.audit()) if a["verb"] == "exec"), None), "the line"
    )
    assert line["tenant"] == rig.tenant.root
    assert (line["vc_uid"], line["pod"], line["container"]) == (rig.tenant.vc_uid, "tool", "main")
    assert (line["status"], line["result"]) == (101, "complete")
    assert line["bytes_down"] > 0
    assert line["seconds"] >= 0
    assert "pa55word" not in rig.agent.log.read_text()
