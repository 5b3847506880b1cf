"""Restarts while streams are open leave nothing behind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.agent.conftest import LEGS, WEBSOCKET
from tests.node.agent.rig import AgentRig
from tests.support import node_objects
from tests.support.kubectl import until
from tools.testbed.cluster.handle import ClusterHandle

pytestmark = [pytest.mark.thorough, pytest.mark.node]

KUBELET = "node-1/kubelet"
RUNTIME = "node-1/containerd"
ENDED_SECONDS = 5
"""A few milliseconds would do: the kernel closes what the kubelet had open."""
LINES, TOGETHER = 4000, 20
COUNTER = f"""
i=0
while [ $i -lt {LINES} ]; do
  i=$((i + 1)); echo line $i; [ $((i % {TOGETHER})) = 0 ] && sleep 0.1
done
"""
"""Some 11 kB a second for twenty seconds."""
ROTATING = {"containerLogMaxSize": "10Ki", "containerLogMonitorInterval": "3s"}
"""A log is renamed whenever it is looked at."""
RESTARTED = [pytest.param(leg, marks=() if leg == LEGS[1] else pytest.mark.slow) for leg in LEGS]
"""Half a minute each: with every change what a kubelet of this minor and kubectl agree on."""
TICKER = "trap 'exit 0' TERM; i=0; while :; do i=$((i + 1)); echo tick $i; sleep 0.1; done"


@pytest.fixture
def kubelet(cluster: ClusterHandle) -> Iterator[str]:
    """The kubelet of the agent's node, which runs again afterwards."""
    yield KUBELET
    cluster.start(KUBELET)
    cluster.wait_until_ready()


def lives(rig: AgentRig, *names: str) -> dict[str, list[tuple[str, int]]]:
    """Return which containers of pods run, and how often each was started again."""
    space = ("-n", rig.tenant.super_namespace())
    return {
        pod["metadata"]["uid"]: [
            (status["containerID"], status["restartCount"])
            for status in pod["status"]["containerStatuses"]
        ]
        for pod in rig.super_kubectl.items("pods", *names, *space)
    }


@pytest.mark.parametrize("leg", RESTARTED, indirect=True, ids=str)
def test_a_kubelet_that_restarts_ends_what_was_open(rig, pods, cluster, kubelet, leg):
    """REL-89: streams break for their callers, pods go on, new streams come, nothing is left.

    Over SPDY kubectl takes a command that breaks off for one that has ended well: it does beside a
    kubelet without an agent, too.
    """
    kubectl = rig.tenant.kubectl
    rig.place(rig.tenant, node_objects.pod("clock", TICKER))
    rig.wait(rig.tenant, "clock")
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    known = len(rig.audit())
    kubectl.run("logs", "clock", "--tail=1")
    kubectl.run("exec", "tool", "--", "true")  # connections made ahead are open from here on
    until(lambda: len(rig.audit()) > known + 1, "both are written down")
    known, before, running = len(rig.audit()), rig.descriptors(), lives(rig, "clock", *pods)
    with (
        kubectl.running("logs", "-f", "clock") as log,
        kubectl.running("exec", "-i", "tool", "--", "cat") as command,
    ):
        command.stdin.write("hello\n")
        assert command.stdout.readline() == "hello\n"
        assert log.stdout.readline().startswith("tick")
        until(lambda: rig.metric("vc_agent_open_streams") == 2, "both are open")
        cluster.stop(kubelet)  # returns when its process is gone
        until(lambda: rig.metric("vc_agent_open_streams") == 0, "both have ended", ENDED_SECONDS)
        log.communicate(timeout=ENDED_SECONDS)
        _, told = command.communicate(timeout=ENDED_SECONDS)
        if leg[0] == WEBSOCKET:
            assert (command.returncode, "unexpected EOF" in told) == (1, True), told
    ended = {line["verb"]: line["result"] for line in rig.audit()[known:]}
    assert ended == {"logs": "kubelet_lost", "exec": "kubelet_lost"}
    assert "the node's kubelet cannot be reached" in kubectl.call("logs", "clock").err
    cluster.start(kubelet)
    until(
        lambda: kubectl.call("exec", "tool", "--", "echo", "again").out == "again\n",
        "exec works again",
    )
    assert kubectl.run("logs", "clock", "--tail=1").startswith("tick")
    until(lambda: rig.descriptors() <= before, "the agent holds no more than before", 120)
    assert lives(rig, "clock", *pods) == running


@pytest.fixture
def runtime(cluster: ClusterHandle) -> Iterator[str]:
    """The container runtime of the agent's node, which runs again afterwards."""
    yield RUNTIME
    cluster.start(RUNTIME)
    cluster.wait_until_ready()


def test_a_runtime_that_restarts_ends_what_was_open(rig, pods, cluster, runtime):
    """REL-90: a command breaks off, pods go on, new commands come, nothing is left."""
    kubectl = rig.tenant.kubectl
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    known, running = len(rig.audit()), lives(rig, *pods)
    with kubectl.running("exec", "-i", "tool", "--", "cat") as command:
        command.stdin.write("hello\n")
        assert command.stdout.readline() == "hello\n"
        cluster.stop(runtime)
        command.communicate(timeout=60)
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "it has ended")
    ended = until(
        lambda: next((line for line in rig.audit()[known:] if line["verb"] == "exec"), None),
        "the command is written down",
    )
    assert (ended["pod"], ended["status"]) == ("tool", 101)
    assert ended["result"] in ("kubelet_lost", "complete")  # as the kubelet ends its side
    away = kubectl.call("exec", "tool", "--", "true")
    assert (away.code != 0, rig.tenant.super_namespace() in away.err) == (True, False), away.err
    cluster.start(runtime)
    until(
        lambda: kubectl.call("exec", "tool", "--", "echo", "again").out == "again\n",
        "exec works again",
    )
    until(lambda: lives(rig, *pods) == running, "the pods are what they were")


@pytest.fixture
def rotation(rig: AgentRig, pods: Any, cluster: ClusterHandle, kubelet: str) -> Iterator[None]:
    """Have the node's kubelet rotate logs every few seconds, and no longer afterwards."""
    path = cluster.places.space("node-1") / "config" / "kubelet.json"
    before = path.read_text()

    def restart(configuration: str) -> None:
        cluster.stop(kubelet)
        path.write_text(configuration)
        cluster.start(kubelet)
        # The node goes on being Ready for a while. A kubelet has no pods before it has seen them.
        until(
            lambda: rig.tenant.kubectl.call("exec", "tool", "--", "true").code == 0,
            "the kubelet serves again",
        )

    restart(json.dumps({**json.loads(before), **ROTATING}))
    yield
    restart(before)


def test_a_log_is_followed_over_rotations(rig, cluster, rotation):
    """REL-95: each line once, in order, to the end of the container."""
    rig.place(rig.tenant, node_objects.pod("counter", COUNTER, restartPolicy="Never"))
    pod = rig.wait(rig.tenant, "counter")
    with rig.tenant.kubectl.running("logs", "-f", "counter") as following:
        found = [
            int(line.split()[1]) for line in following.communicate(timeout=120)[0].splitlines()
        ]
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (1, LINES)
    # The kubelet leaves the old file when it sees the new one, which the runtime makes a moment
    # before it writes to that: what is written in between is the kubelet's own loss.
    assert LINES - len(found) <= TOGETHER
    root = Path(f"/proc/{cluster.pid_of('node-1')}/root/var/log/pods")
    name = f"{rig.tenant.super_namespace()}_counter_{pod['metadata']['uid']}"
    assert len(list((root / name / "main").glob("0.log.*"))) >= 2, "it has been rotated"
