"""Addresses of the node agents, and the route of each agent to the pods of its node.

An agent of a target is identified by the registration in the label of its pod. It is no agent of
the node that it runs on.

A node's agent reports its route by Events on its own pod, because that is the smallest permission
that suffices (ADR 0019). It repeats the Event every 30 min while its route bypasses the kubelet.
The last Event therefore applies for as long as the server keeps it, and no Event means the default
route. Must not know sessions.

Hazard: nothing but a node's condition may depend on these Events. Any holder of an agent's account
can write them for any agent.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeio.cache.store import Entry, Store
from kubeio.resource_version import revision_of
from tenancy import conditions, wellknown

BY_NODE = "node"
"""Index of agent pods by their node."""
BY_TARGET = "target"
"""Index of the pods of target agents, by the UID of the SuperCluster that they serve."""
BY_POD = "pod"
"""Index of agents' Events by the UID of the pod that they are about."""
_ENDED = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class Agent:
    """Agent of one node, or of one target."""

    address: str
    way: str = wellknown.AGENT_STRAIGHT
    """Reason of the Event by which the agent reported its route."""


def node_of(pod: Entry) -> Iterable[str]:
    """Return the node of an agent pod. Empty for an agent of a target."""
    if wellknown.SUPER_CLUSTER in pod.labels:
        return ()
    node = (pod.decode().get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


def registration_of(pod: Entry) -> Iterable[str]:
    """Return the registration that a pod serves as the agent of a target."""
    found = pod.labels.get(wellknown.SUPER_CLUSTER)
    return (found,) if found else ()


def pod_of(event: Entry) -> Iterable[str]:
    """Return the UID of the pod that an Event about a route refers to."""
    found = event.decode()
    uid = (found.get("involvedObject") or {}).get("uid")
    return (str(uid),) if uid and found.get("reason") in wellknown.AGENT_WAYS else ()


class Agents:
    """Lookup of all agents."""

    def __init__(self, pods: Store, events: Store) -> None:
        """Create the lookup. `pods` has the indexes BY_NODE and BY_TARGET, `events` has BY_POD."""
        self._pods = pods
        self._events = events

    def on(self, node: str) -> Agent | None:
        """Return the reachable agent on a node. None if there is none."""
        for pod in self._pods.index(BY_NODE, node):
            address = _address(pod)
            if address:
                return Agent(address, self._way(pod.uid))
        return None

    def of_target(self, registration: str) -> str:
        """Return the address of a target's agent.

        Ready pods have precedence, and among them the newest. Empty if no agent is reachable.
        """
        found = [pod for pod in self._pods.index(BY_TARGET, registration) if _address(pod)]
        best = max(found, key=_rank, default=None)
        return _address(best) if best is not None else ""

    def concerned(self, event: Entry) -> str:
        """Return the node of the agent that an Event is about. Empty if it is no agent."""
        name = str((event.decode().get("involvedObject") or {}).get("name") or "")
        pod = self._pods.get(event.namespace, name)
        return next(iter(node_of(pod)), "") if pod is not None else ""

    def _way(self, uid: str) -> str:
        told = self._events.index(BY_POD, uid)
        if not told:
            return wellknown.AGENT_STRAIGHT
        # Use the server's order, because an agent's clock may be wrong.
        last = max(told, key=lambda event: revision_of(event.resource_version))
        return str(last.decode()["reason"])


def _address(pod: Entry) -> str:
    """Return the address of a running pod. Empty if it is not reachable."""
    status = pod.decode().get("status") or {}
    is_over = pod.deleting or status.get("phase") in _ENDED
    return "" if is_over else str(status.get("podIP") or "")


def _rank(pod: Entry) -> tuple[bool, str, str]:
    """Return the sort key of a pod among the pods of one agent. The greatest key wins."""
    body = pod.decode()
    is_ready = conditions.is_true((body.get("status") or {}).get("conditions"), "Ready")
    return is_ready, str(body["metadata"].get("creationTimestamp") or ""), pod.name
