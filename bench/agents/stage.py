"""Node of a super cluster with both doors to it: the kubelet's port, and an agent on the host.

Owns the agent, its tenants and their pods for the duration of a measurement. The cluster is up
before and stays up. Hazard: a long log must be one of a container that has ended. Kubelets rotate
the logs of running containers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.agents.downloads import fetch
from bench.agents.endpoints import ApiEntry
from bench.programs import image_python
from tenancy.agent_permissions import AgentPermissions, KubeletCall
from tests.support import agents, node_objects
from tests.support.agents import AgentCaller
from tests.support.kubectl import KubectlRunner, until
from tests.support.processes import free_port
from tools.testbed.cluster.handle import ClusterHandle
from vnagent.upstream.kubelet import KUBELET_PORT

TICKER = "trap 'exit 0' TERM; while :; do echo tick; sleep 0.2; done"
NEIGHBOURS = 8
"""Number of tenants besides the measured one."""
_TRIES = 6
_STREAMS = "--max-streams=4096"
"""Stream limit of the agent's node. The default is smaller than the sum of the tenants' limits,
which this load reaches."""


@dataclass(frozen=True, kw_only=True)
class AgentStage:
    """Both doors, and the pods that they lead to."""

    direct: ApiEntry
    agent: ApiEntry
    folder: Path
    agent_pid: int
    kubelet_pid: int
    neighbours: tuple[Path, ...]
    """The identities of other tenants."""
    _kubectl: KubectlRunner
    _caller: AgentCaller
    _others: tuple[AgentCaller, ...]
    _node: str

    @property
    def doors(self) -> tuple[ApiEntry, ApiEntry]:
        """Both doors, in the order of use."""
        return self.direct, self.agent

    def place(self, pod: dict[str, Any], phase: str = "Running") -> None:
        """Create a pod of the tenant and wait for a phase."""
        self._place(self._caller, pod, phase)

    def place_beside(self, pod: dict[str, Any]) -> None:
        """Run a pod of each other tenant."""
        for caller in self._others:
            self._place(caller, pod, "Running")

    def _place(self, caller: AgentCaller, pod: dict[str, Any], phase: str) -> None:
        name = pod["metadata"]["name"]
        self._kubectl.apply(agents.recorded(pod, caller, self._node))

        def look() -> bool:
            found = self._kubectl.get("pod", name, "-n", caller.super_namespace())
            return bool(found["status"]["phase"] == phase)

        until(look, f"the pod {name} is {phase}", 120)

    @asynccontextmanager
    async def another(self) -> AsyncIterator[tuple[ApiEntry, int]]:
        """Run one more agent without served requests. Yields its door and its process."""
        port, health_port = free_port(), free_port()
        process = agents.start_agent(
            *(self.folder, self.direct.host, port, health_port),
            *(f"--node-name={self._node}", *agents.api_flags(self._kubectl), _STREAMS),
            log=f"agent-{port}.log",
            python=image_python.python(),
        )
        try:
            until(lambda: agents.is_ready(health_port), "another agent is ready")
            yield replace(self.agent, port=port), process.pid
        finally:
            await process.stop()

    def write_log(self, name: str, size: int, line: int) -> str:
        """Create a log of `size` bytes in lines of `line` bytes. Returns its pod's name."""
        for number in range(_TRIES):
            pod = f"{name}-{number}"
            self.place(
                node_objects.pod(pod, writes(size, line), restartPolicy="Never"), "Succeeded"
            )
            if fetch(self.direct, self.direct.logs(pod)).size == size:
                return pod
        raise SystemExit(
            f"the kubelet has rotated each of {_TRIES} logs of {size} bytes while they were"
            " written. Use shorter ones"
        )


def writes(size: int, line: int) -> str:
    """Return a script that prints so many bytes in lines of one length."""
    word = f"$(head -c {line - 1} /dev/zero | tr '\\0' x)"
    return f'yes "{word}" | head -c {size}'


@contextmanager
def running(cluster: ClusterHandle, folder: Path) -> Iterator[AgentStage]:
    """Run an agent and its tenant for the duration of a block."""
    if not cluster.is_up():
        raise SystemExit(
            f"the cluster {cluster.name} is not up: python -m tools.testbed up --no-chart"
            f" --name {cluster.name}"
        )
    below = KubectlRunner(kubeconfig=cluster.kubeconfig, path=cluster.path())
    with agents.running(below, folder, image_python.python(), _STREAMS) as agent:
        caller = agent.caller("bench")
        others = tuple(agent.caller(f"neighbour-{number}") for number in range(NEIGHBOURS))
        told = AgentPermissions(
            {"baseline": frozenset(KubeletCall)},
            {each.vc_uid: "baseline" for each in (caller, *others)},
        )
        agents.permit(below, told)
        until(lambda: agents.is_ready(agent.health_port), "the agent is ready")
        running_now = cluster.control.state()["running"]
        pki = cluster.places.pki
        yield AgentStage(
            direct=ApiEntry(
                name="kubelet",
                host=agent.node_ip,
                port=KUBELET_PORT,
                authority=pki / "ca.crt",
                certificate=pki / "apiserver-kubelet-client.crt",
                key=pki / "apiserver-kubelet-client.key",
                namespace=caller.super_namespace(),
            ),
            agent=ApiEntry(
                name="agent",
                host="127.0.0.1",
                port=agent.port,
                authority=folder / "serving-ca.crt",
                certificate=caller.identity / "client.crt",
                key=caller.identity / "client.key",
                namespace="default",
            ),
            folder=folder,
            agent_pid=agent.process.pid,
            kubelet_pid=cluster.control.host_pid(running_now["node-1/kubelet"]),
            neighbours=tuple(each.identity for each in others),
            _kubectl=below,
            _caller=caller,
            _others=others,
            _node=agent.node,
        )
