"""Calls of kubectl to the agent of the chart: debug containers, and a rollout."""

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tenancy import wellknown
from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin
from tests.node.minors import EACH
from tests.support import node_objects, websockets
from tests.support.debugs import debugged
from tests.support.kubectl import KubectlRunner, until
from tests.support.websockets import V5, CommandOutput
from vnagent.settings import DRAIN_SECONDS

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "agent"


@pytest.fixture(scope="module", autouse=True)
def space(tenant_a: TenantAdmin) -> Iterator[None]:
    """A namespace of this module's own, with one sleeping pod `main`."""
    kubectl = tenant_a.kubectl
    kubectl.run("create", "namespace", SPACE)
    kubectl.apply(node_objects.sleeper("main", namespace=SPACE))
    kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "pod/main", "--timeout=90s")
    yield
    kubectl.run("delete", "namespace", SPACE, timeout=120)


@pytest.mark.parametrize("minor", EACH)
def test_a_debug_container_is_talked_to_and_sees_its_target(tenant_a: TenantAdmin, minor: str):
    """X-26: the syncer adds an ephemeral container, and the agent attaches to it."""
    debugged(tenant_a.kubectl.of_minor(minor), SPACE, "main", f"probe-{minor.replace('.', '-')}")


def test_the_right_to_look_is_no_right_to_run(tenant_a: TenantAdmin):
    """SEC-22: an exec over a WebSocket is a GET, and who may only get pods/exec runs nothing."""
    user, account = tenant_a.kubectl, f"system:serviceaccount:{SPACE}:looker"
    asked = ("-n", SPACE, f"--as={account}", "exec", "main", "--", "echo", "ran")
    user.run("-n", SPACE, "create", "serviceaccount", "looker")
    for verbs, is_let in (("get", False), ("get,create", True)):
        role = f"looker-{len(verbs)}"
        rules = (f"--verb={verbs}", "--resource=pods,pods/exec")
        user.run("-n", SPACE, "create", "role", role, *rules)
        bound = (f"--role={role}", f"--serviceaccount={SPACE}:looker")
        user.run("-n", SPACE, "create", "rolebinding", role, *bound)
        if is_let:
            until(lambda: user.call(*asked).out == "ran\n", "the right to create is enough")
        else:
            until(
                lambda: 'cannot create resource "pods/exec"' in user.call(*asked).err,
                "the right to look is there, and not enough",
            )


async def open_ports(address: str) -> set[int]:
    """Return the ports at which someone listens, of all."""
    places, found = asyncio.Semaphore(256), set()

    async def knock(port: int) -> None:
        async with places:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(10):
                    _, writer = await asyncio.open_connection(address, port)
                found.add(port)
                writer.transport.abort()

    await asyncio.gather(*map(knock, range(1, 65536)))
    return found


def answer_of(address: str, port: int) -> bytes:
    """Return what a TLS port says to a request of no tenant's. Empty when it hangs up."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        socket.create_connection((address, port), timeout=10) as plain,
        context.wrap_socket(plain) as talking,
    ):
        talking.sendall(b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n")
        return talking.recv(1000)
    return b""


@pytest.mark.thorough
def test_pods_of_tenants_find_no_open_door(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin):
    """SEC-13: one port for tenants, that asks for a certificate. Health without a word more.

    NetworkPolicies are a second wall, so it is so without them.
    """
    user = tenant_a.kubectl
    (agent,) = agent_pods(super_cluster.kubectl)
    address = agent["status"]["podIP"]
    looks = f"for at in healthz readyz metrics pods; do wget -qO- {address}:10551/$at; done; true"
    with super_cluster.without_enforcement():
        found = asyncio.run(open_ports(address))
        assert {10550} <= found <= {10550, 10551, 10552}
        assert answer_of(address, 10550) == b""
        assert 10552 not in found or answer_of(address, 10552).startswith(b"HTTP/1.1 401 ")
        said = user.run("-n", SPACE, "exec", "main", "--", "sh", "-c", looks)
        assert said.splitlines() == ["ok", "serving: ok"]


# A rollout, and a node without its agent.

WEBSOCKETS = "ExtendWebSocketsToKubelet"
"""What a node has to declare, or an API server speaks SPDY to it."""


def way_to(kubectl: KubectlRunner) -> tuple[list[str], int, str]:
    """Return what a tenant's API server goes by: declared features, port, the agent's address."""
    (node,) = kubectl.items("nodes")
    status = node["status"]
    addresses = {each["type"]: each["address"] for each in status["addresses"]}
    return (
        status["declaredFeatures"],
        status["daemonEndpoints"]["kubeletEndpoint"]["Port"],
        addresses.get(wellknown.AGENT_ADDRESS, ""),
    )


def agent_pods(kubectl: KubectlRunner) -> list[dict[str, Any]]:
    """Return the agents' pods."""
    return kubectl.items("pods", "-n", COMPONENTS, "-l", "app.kubernetes.io/name=vn-agent")


def told(kubectl: KubectlRunner, pod: str, event: str) -> list[dict[str, Any]]:
    """Return the lines of an agent's log that are about an event."""
    lines = map(json.loads, kubectl.run("logs", pod, "-n", COMPONENTS).splitlines())
    return [line for line in lines if line["event"] == event]


@pytest.fixture
def without_agent(super_cluster: SuperClusterAdmin) -> Iterator[None]:
    """No node has an agent for the length of a test."""
    admin = super_cluster.kubectl

    def select(value: str | None) -> None:
        """Ask for a label that no node has, or no longer."""
        change = {"spec": {"template": {"spec": {"nodeSelector": {"nowhere": value}}}}}
        asked = ("patch", "daemonset", "vn-agent", "-n", COMPONENTS, "--type=merge", "-p")
        admin.run(*asked, json.dumps(change))

    select("yes")
    until(lambda: agent_pods(admin) == [], "the agent is gone", 180)
    yield
    select(None)
    admin.run("rollout", "status", "daemonset/vn-agent", "-n", COMPONENTS, timeout=180)


def test_a_node_without_its_agent_reports_it_and_takes_pods(
    tenant_a: TenantAdmin, without_agent: None
):
    """REL-93: logs and exec fail with a cause. The node names it. Pods come and become ready."""
    user = tenant_a.kubectl

    def found() -> tuple[str, str]:
        (node,) = user.items("nodes")
        conditions = {each["type"]: each for each in node["status"]["conditions"]}
        direct = conditions[wellknown.KUBELET_DIRECT]
        return direct["status"], direct["reason"]

    until(lambda: found() == ("Unknown", "NoAgent"), "the node says that it has no agent")
    assert way_to(user)[2] == ""
    user.apply(node_objects.sleeper("later", namespace=SPACE))
    user.run("-n", SPACE, "wait", "--for=condition=Ready", "pod/later", "--timeout=60s")
    for asked in (("logs", "later"), ("exec", "later", "--", "true")):
        # With enforced NetworkPolicies the API server gives up by its own limits: 30 and 60 s.
        done = user.call("-n", SPACE, *asked, timeout=120)
        assert done.code == 1
        assert "dial" in done.err, done.err
    user.run("-n", SPACE, "delete", "pod", "later", timeout=60)


@pytest.mark.thorough
def test_a_rollout_lets_a_running_exec_go_on(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin
):
    """REL-91: what runs may end within the grace, and is cut after it. The next agent serves on.

    The tenant's node says how to reach pods all the while: its features and port stay, its address
    is the agent's that takes calls, and none while there is none.
    """
    admin, user = super_cluster.kubectl, tenant_a.kubectl
    (old,) = agent_pods(admin)
    name = old["metadata"]["name"]
    features, port, address = way_to(user)
    assert WEBSOCKETS in features
    assert (port, address) == (wellknown.AGENT_PORT, old["status"]["podIP"])
    seen: list[str] = []

    def look() -> str:
        """Note the agent's address in the tenant. The rest does not change."""
        found = way_to(user)
        assert found[:2] == (features, port)
        seen.append(found[2])
        return found[2]

    asked = ("-n", SPACE, "exec", "main", "-i", "--", "sh", "-c")
    ends = "while read line; do echo got $line; done; exit 7"
    with (
        user.running(*asked, ends) as ending,
        user.running(*asked, "while :; do date +%s; sleep 0.2; done") as endless,
    ):
        ending.stdin.write("before\n")
        assert ending.stdout.readline() == "got before\n"
        assert endless.stdout.readline()
        admin.run("rollout", "restart", "daemonset/vn-agent", "-n", COMPONENTS)
        until(lambda: told(admin, name, "draining"), "the old agent drains")
        drains = time.time()
        until(lambda: look() == "", "no agent takes calls, and the tenant's node has no address")
        ending.stdin.write("meanwhile\n")
        assert ending.stdout.readline() == "got meanwhile\n"
        ending.stdin.close()
        assert ending.wait(timeout=30) == 7
        until(
            lambda: look() is not None and endless.poll() is not None,
            "the stream that does not end is cut",
        )
        last = int(endless.stdout.read().splitlines()[-1])
        assert last - drains > DRAIN_SECONDS / 2  # the rest is for looking at logs
    admin.run("rollout", "status", "daemonset/vn-agent", "-n", COMPONENTS, timeout=180)
    (new,) = agent_pods(admin)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    until(lambda: look() == new["status"]["podIP"], "the tenant's node has the new agent's address")
    assert set(seen) <= {address, "", new["status"]["podIP"]}
    to = websockets.of_api_server(user.kubeconfig)
    words = [("command", "echo"), ("command", "again"), ("container", "main"), ("stdout", "true")]
    path = f"/api/v1/namespaces/{SPACE}/pods/main/exec"
    assert websockets.run(to, path, words, "", V5) == CommandOutput(V5, "again\n", "", 0)
    served = told(admin, new["metadata"]["name"], "session")
    assert ("exec", "main", "complete") in [(s["verb"], s["pod"], s["result"]) for s in served]
