"""A super cluster, an agent with two tenants, and pods that the tests of this folder share.

Hazard: that is up while tests of this folder run, and no longer: other node tests take the super
cluster down, or stop parts of it, and what stands around the agent must be gone by then.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.agent import calls
from tests.node.agent.rig import SLEEPER, AgentRig, patch_node, running
from tests.node.minors import EACH, MINORS
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.progress import StepPrinter

HERE = Path(__file__).parent
SPDY, WEBSOCKET = "spdy", "websocket"
"""What the apiserver speaks to the kubelet: the latter where the node declares it."""
LEGS = [(SPDY, "true"), (WEBSOCKET, "true"), (SPDY, "false")]
"""With whether kubectl speaks WebSockets to the apiserver."""
HELD = [leg for leg in LEGS if leg[1] == "true"]
"""A kubectl that speaks SPDY has an API server that closes under its pings as soon as the kubelet
has ended: it loses bytes beside a kubelet without an agent as well."""


LARGE = [(MINORS[0], HELD[0]), *zip(MINORS, (HELD[1], HELD[1], HELD[0]), strict=True)]
"""For what takes a minute each: every kubectl, and both ways of the newest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have this folder's tests first, on a cluster of two nodes: that of the others has one."""
    items.sort(key=lambda item: HERE not in item.path.parents)


@pytest.fixture(scope="package")
def cluster() -> Iterator[ClusterHandle]:
    """The super cluster, of two nodes. One that is up already is used and left."""
    cluster = ClusterHandle(os.environ.get("SUPER_CLUSTER", "test"), nodes=2)
    was_up = cluster.is_up()
    cluster.up(StepPrinter())
    try:
        yield cluster
    finally:
        if not was_up and "KEEP" not in os.environ:
            cluster.down()


@pytest.fixture(scope="package")
def below(cluster: ClusterHandle) -> KubectlRunner:
    """The super cluster as its admin sees it."""
    return KubectlRunner(kubeconfig=cluster.kubeconfig, path=cluster.path())


@pytest.fixture(scope="package")
def rig(below: KubectlRunner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentRig]:
    """An agent on the host, and two tenants."""
    with running(below, tmp_path_factory.mktemp("agent")) as found:
        yield found


@pytest.fixture(params=EACH)
def user(rig: AgentRig, request: pytest.FixtureRequest) -> KubectlRunner:
    """The first tenant through the kubectl of each minor."""
    return rig.tenant.kubectl.of_minor(request.param)


@pytest.fixture(params=LEGS, ids=str)
def leg(
    rig: AgentRig, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """REL-94: each way in which a stream can come along."""
    found: tuple[str, str] = request.param
    take_leg(rig, found, monkeypatch)
    return found


def take_leg(rig: AgentRig, leg: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a rig's streams come along in one way."""
    towards_agent, kubectl_websockets = leg
    declared = ["ExtendWebSocketsToKubelet"] if towards_agent == WEBSOCKET else []
    patch_node(rig.tenant, rig.virtual, declaredFeatures=declared)
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", kubectl_websockets)
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", kubectl_websockets)


@pytest.fixture(scope="package")
def pods(rig: AgentRig) -> dict[str, dict[str, Any]]:
    """Pods of the first tenant that the tests share, by name. All run."""
    talker = calls.talker("talker")
    tool = node_objects.pod("tool", SLEEPER)
    listener = node_objects.pod(
        "listener", "echo open; while :; do echo hi there | nc -l -p 8080; done"
    )
    for one in (talker, listener):
        one["metadata"]["labels"]["speaks"] = "yes"
    reader = node_objects.pod("reader", "while read line; do echo got $line; done; sleep 600")
    reader["spec"]["containers"][0]["stdin"] = True
    for one in (talker, tool, listener, reader):
        rig.place(rig.tenant, one)
    found = {name: rig.wait(rig.tenant, name) for name in ("tool", "listener", "reader")}

    found["talker"] = rig.wait_for_restart(rig.tenant, "talker")
    return found
