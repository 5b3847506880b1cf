"""The node agents: where each one is, and which way it goes to the pods of its node.

An agent tells its way in Events on its own pod, the least that it can be allowed to write (ADR
0019), and again every half hour while it leads off the kubelet. So the last Event counts for as
long as the server keeps it, and no Event is the usual way. Must not know sessions. Hazard: whoever
has an agent's account can write these for any agent; a node's condition is all that hangs on them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeio.store import Entry, Store
from syncer.expectations import revision_of
from tenancy import marks

BY_NODE = "node"
"""Index of agent pods by their node."""
BY_POD = "pod"
"""Index of agents' Events by the UID of the pod that they are about."""
_ENDED = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one node."""

    address: str
    way: str = marks.AGENT_STRAIGHT
    """Reason of the Event by which it told its way."""


def node_of(pod: Entry) -> Iterable[str]:
    """Yield the node of an agent's pod."""
    node = (pod.decode().get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


def pod_of(event: Entry) -> Iterable[str]:
    """Yield the UID of the pod whose way an Event tells."""
    found = event.decode()
    uid = (found.get("involvedObject") or {}).get("uid")
    return (str(uid),) if uid and found.get("reason") in marks.AGENT_WAYS else ()


class Agents:
    """What is known of all agents."""

    def __init__(self, pods: Store, events: Store) -> None:
        """`pods` has the index BY_NODE, `events` BY_POD."""
        self._pods = pods
        self._events = events

    def on(self, node: str) -> Agent | None:
        """Return the agent that can be called on a node, None when there is none."""
        for pod in self._pods.index(BY_NODE, node):
            status = pod.decode().get("status") or {}
            address = str(status.get("podIP") or "")
            if address and not pod.deleting and status.get("phase") not in _ENDED:
                return Agent(address, self._way(pod.uid))
        return None

    def concerned(self, event: Entry) -> str:
        """Return the node whose agent an Event is about, empty when it is none's."""
        name = str((event.decode().get("involvedObject") or {}).get("name") or "")
        pod = self._pods.get(event.namespace, name)
        return next(iter(node_of(pod)), "") if pod is not None else ""

    def _way(self, uid: str) -> str:
        told = self._events.index(BY_POD, uid)
        if not told:
            return marks.AGENT_STRAIGHT
        # The server's order: an agent's clock may be wrong.
        last = max(told, key=lambda event: revision_of(event.resource_version))
        return str(last.decode()["reason"])
