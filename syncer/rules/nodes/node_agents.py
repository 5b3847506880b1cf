"""The agents: where each one is, and which way a node's goes to the pods of its node.

An agent of a target is known by the registration that its pod is labelled with, and is no node's
agent, whichever node it runs on. A node's agent tells its way in Events on its own pod, the least
that it can be allowed to write (ADR 0019), and again every half hour while it leads off the
kubelet. So the last Event counts for as long as the server keeps it, and no Event is the usual way.
Must not know sessions. Hazard: whoever has an agent's account can write these for any agent; a
node's condition is all that hangs on them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeio.cache.store import Entry, Store
from kubeio.resource_version import revision_of
from tenancy import conditions, wellknown

BY_NODE = "node"
"""Index of agent pods by their node."""
BY_TARGET = "target"
"""Index of the pods of targets' agents by the UID of the SuperCluster that they serve."""
BY_POD = "pod"
"""Index of agents' Events by the UID of the pod that they are about."""
_ENDED = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one node, or of one target."""

    address: str
    way: str = wellknown.AGENT_STRAIGHT
    """Reason of the Event by which it told its way."""


def node_of(pod: Entry) -> Iterable[str]:
    """Yield the node whose agent a pod is."""
    if wellknown.SUPER_CLUSTER in pod.labels:
        return ()
    node = (pod.decode().get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


def registration_of(pod: Entry) -> Iterable[str]:
    """Yield the registration that a pod serves, when it is the agent of a target."""
    found = pod.labels.get(wellknown.SUPER_CLUSTER)
    return (found,) if found else ()


def pod_of(event: Entry) -> Iterable[str]:
    """Yield the UID of the pod whose way an Event tells."""
    found = event.decode()
    uid = (found.get("involvedObject") or {}).get("uid")
    return (str(uid),) if uid and found.get("reason") in wellknown.AGENT_WAYS else ()


class Agents:
    """What is known of all agents."""

    def __init__(self, pods: Store, events: Store) -> None:
        """`pods` has the indexes BY_NODE and BY_TARGET, `events` BY_POD."""
        self._pods = pods
        self._events = events

    def on(self, node: str) -> Agent | None:
        """Return the agent that can be called on a node, None when there is none."""
        for pod in self._pods.index(BY_NODE, node):
            address = _address(pod)
            if address:
                return Agent(address, self._way(pod.uid))
        return None

    def of_target(self, registration: str) -> str:
        """Return the address of a target's agent: one that is ready, and the newest of those.

        Empty when there is none that can be called.
        """
        found = [pod for pod in self._pods.index(BY_TARGET, registration) if _address(pod)]
        best = max(found, key=_rank, default=None)
        return _address(best) if best is not None else ""

    def concerned(self, event: Entry) -> str:
        """Return the node whose agent an Event is about, empty when it is none's."""
        name = str((event.decode().get("involvedObject") or {}).get("name") or "")
        pod = self._pods.get(event.namespace, name)
        return next(iter(node_of(pod)), "") if pod is not None else ""

    def _way(self, uid: str) -> str:
        told = self._events.index(BY_POD, uid)
        if not told:
            return wellknown.AGENT_STRAIGHT
        # The server's order: an agent's clock may be wrong.
        last = max(told, key=lambda event: revision_of(event.resource_version))
        return str(last.decode()["reason"])


def _address(pod: Entry) -> str:
    """Return the address of a pod that runs, empty when it cannot be called."""
    status = pod.decode().get("status") or {}
    is_over = pod.deleting or status.get("phase") in _ENDED
    return "" if is_over else str(status.get("podIP") or "")


def _rank(pod: Entry) -> tuple[bool, str, str]:
    """Return what puts one pod of an agent before another."""
    body = pod.decode()
    is_ready = conditions.is_true((body.get("status") or {}).get("conditions"), "Ready")
    return is_ready, str(body["metadata"].get("creationTimestamp") or ""), pod.name
