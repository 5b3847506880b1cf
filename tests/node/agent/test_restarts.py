"""What ends while streams are open, and what of them is left: nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import objects
from tests.node.agent.rig import Rig
from tests.node.kubectl import until
from tests.testbed.cluster import Cluster

pytestmark = [pytest.mark.thorough, pytest.mark.node]

KUBELET = "node-1/kubelet"
TICKER = "trap 'exit 0' TERM; i=0; while :; do i=$((i + 1)); echo tick $i; sleep 0.1; done"


@pytest.fixture
def kubelet(cluster: Cluster) -> Iterator[str]:
    """The kubelet of the agent's node, which runs again afterwards."""
    yield KUBELET
    cluster.start(KUBELET)
    cluster.wait_until_ready()


def descriptors(rig: Rig) -> int:
    """Count what the agent has open."""
    return len(list(Path(f"/proc/{rig.agent.pid}/fd").iterdir()))


def lives(rig: Rig, *names: str) -> dict[str, list[tuple[str, int]]]:
    """Return which containers of pods run, and how often each was started anew."""
    space = ("-n", rig.tenant.super_namespace())
    return {
        pod["metadata"]["uid"]: [
            (status["containerID"], status["restartCount"])
            for status in pod["status"]["containerStatuses"]
        ]
        for pod in rig.super_kubectl.items("pods", *names, *space)
    }


def test_a_kubelet_that_restarts_ends_what_was_open(rig, pods, cluster, kubelet):
    """REL-89: streams break for their callers, pods go on, new streams come, nothing is left."""
    kubectl = rig.tenant.kubectl
    rig.place(rig.tenant, objects.pod("clock", TICKER))
    rig.wait(rig.tenant, "clock")
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    known = len(rig.audit())
    kubectl.run("exec", "tool", "--", "true")  # connections made ahead are open from here on
    until(lambda: len(rig.audit()) > known, "the command is written down")
    known, before, running = len(rig.audit()), descriptors(rig), lives(rig, "clock", *pods)
    with (
        kubectl.running("logs", "-f", "clock") as log,
        kubectl.running("exec", "-i", "tool", "--", "cat") as command,
    ):
        command.stdin.write("hello\n")
        assert command.stdout.readline() == "hello\n"
        assert log.stdout.readline().startswith("tick")
        until(lambda: rig.metric("vc_agent_open_streams") == 2, "both are open")
        cluster.stop(kubelet)
        log.communicate(timeout=60)
        command.communicate(timeout=60)
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "both have ended")
    ended = {line["verb"]: line["result"] for line in rig.audit()[known:]}
    assert ended == {"logs": "kubelet_lost", "exec": "kubelet_lost"}
    assert "the node's kubelet cannot be reached" in kubectl.call("logs", "clock").err
    cluster.start(kubelet)
    until(
        lambda: kubectl.call("exec", "tool", "--", "echo", "again").out == "again\n",
        "exec works again",
    )
    assert kubectl.run("logs", "clock", "--tail=1").startswith("tick")
    until(lambda: descriptors(rig) <= before, "the agent holds no more than before")
    assert lives(rig, "clock", *pods) == running
