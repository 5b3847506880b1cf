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
from kubeio.resource_version import parse_revision
from tenancy import conditions, wellknown

BY_NODE_INDEX = "node"
"""Index of agent pods by their node."""
BY_TARGET_INDEX = "target"
"""Index of the pods of target agents, by the UID of the SuperCluster that they serve."""
BY_POD_INDEX = "pod"
"""Index of agents' Events by the UID of the pod that they are about."""


@dataclass(frozen=True, slots=True)
class NodeAgent:
    """Agent of one node, or of one target."""

    address: str
    upstream_reason: str = wellknown.UPSTREAM_KUBELET
    """Reason of the Event by which the agent reported its route."""


def index_by_node(pod: Entry) -> Iterable[str]:
    """Return the node of an agent pod. Empty for an agent of a target."""
    if wellknown.SUPER_CLUSTER in pod.labels:
        return ()
    node = (pod.decode().get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


def index_by_target(pod: Entry) -> Iterable[str]:
    """Return the registration that a pod serves as the agent of a target."""
    found = pod.labels.get(wellknown.SUPER_CLUSTER)
    return (found,) if found else ()


def index_by_pod(event: Entry) -> Iterable[str]:
    """Return the UID of the pod that an Event about a route refers to."""
    found = event.decode()
    uid = (found.get("involvedObject") or {}).get("uid")
    return (str(uid),) if uid and found.get("reason") in wellknown.UPSTREAM_EVENT_REASONS else ()


class NodeAgents:
    """Lookup of all agents."""

    def __init__(self, pods: Store, events: Store) -> None:
        """Create the lookup. `pods` has the indexes BY_NODE and BY_TARGET, `events` has BY_POD."""
        self._pods = pods
        self._events = events

    def get_for_node(self, node: str) -> NodeAgent | None:
        """Return the reachable agent on a node. None if there is none."""
        for pod in self._pods.index(BY_NODE_INDEX, node):
            address = _get_address(pod)
            if address:
                return NodeAgent(address, self._get_upstream_reason(pod.uid))
        return None

    def get_target_address(self, registration: str) -> str:
        """Return the address of a target's agent.

        Ready pods have precedence, and among them the newest. Empty if no agent is reachable.
        """
        found = [
            pod for pod in self._pods.index(BY_TARGET_INDEX, registration) if _get_address(pod)
        ]
        best = max(found, key=_rank_pod, default=None)
        return _get_address(best) if best is not None else ""

    def get_event_node(self, event: Entry) -> str:
        """Return the node of the agent that an Event is about. Empty if it is no agent."""
        name = str((event.decode().get("involvedObject") or {}).get("name") or "")
        pod = self._pods.get(event.namespace, name)
        return next(iter(index_by_node(pod)), "") if pod is not None else ""

    def _get_upstream_reason(self, uid: str) -> str:
        told = self._events.index(BY_POD_INDEX, uid)
        if not told:
            return wellknown.UPSTREAM_KUBELET
        # Use the server's order, because an agent's clock may be wrong.
        last = max(told, key=lambda event: parse_revision(event.resource_version))
        return str(last.decode()["reason"])


def _get_address(pod: Entry) -> str:
    """Return the address of a running pod. Empty if it is not reachable."""
    status = pod.decode().get("status") or {}
    is_over = pod.deleting or status.get("phase") in wellknown.TERMINAL_PHASES
    return "" if is_over else str(status.get("podIP") or "")


def _rank_pod(pod: Entry) -> tuple[bool, str, str]:
    """Return the sort key of a pod among the pods of one agent. The greatest key wins."""
    body = pod.decode()
    is_ready = conditions.is_true((body.get("status") or {}).get("conditions"), "Ready")
    return is_ready, str(body["metadata"].get("creationTimestamp") or ""), pod.name
