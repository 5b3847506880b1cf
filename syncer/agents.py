"""The node agents: where each one is, and which way it goes to the pods of its node.

An agent tells its way in Events on its own pod, the least that it can be allowed to write (ADR
0019); what none has told is the usual way. Must not know sessions. Hazard: agents come and go with
their nodes, and their Events outlive them; so a way is kept by the pod's UID, and only for so many.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from kubeio.store import Entry, Store
from tenancy import marks

BY_NODE = "node"
"""Index of agent pods by their node."""
_MANY = 16_384
"""Ways that are kept: more than there are nodes in a cluster."""


@dataclass(frozen=True, slots=True)
class _Told:
    way: str
    since: str
    last: str
    """When it was last told, as the API writes times, so that they compare as text."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one node."""

    address: str
    """Empty while its pod has none."""
    way: str = ""
    """Reason of the Event by which it told its way, empty when it goes straight to the kubelet."""
    since: str = ""
    """When that began, as the API writes times."""


def node_of(pod: Entry) -> Iterable[str]:
    """Yield the node of an agent's pod."""
    node = (pod.decode().get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


class Agents:
    """What is known of all agents."""

    def __init__(self, pods: Store, namespace: str) -> None:
        """`pods` are the agents', with the index BY_NODE, in `namespace`."""
        self._pods = pods
        self._namespace = namespace
        self._ways: OrderedDict[str, _Told] = OrderedDict()

    def on(self, node: str) -> Agent | None:
        """Return the agent of a node, None when there is none."""
        for pod in self._pods.index(BY_NODE, node):
            if not pod.deleting:
                status = pod.decode().get("status") or {}
                told = self._ways.get(pod.uid)
                since = told.since if told is not None else str(status.get("startTime") or "")
                return Agent(str(status.get("podIP") or ""), told.way if told else "", since)
        return None

    def hear(self, event: Entry) -> str:
        """Take an Event in; return the node whose agent has told another way, empty otherwise."""
        if event.namespace != self._namespace:
            return ""
        found = event.decode()
        way, told = str(found.get("reason") or ""), str(found.get("firstTimestamp") or "")
        regards = found.get("involvedObject") or {}
        uid = str(regards.get("uid") or "")
        if way not in marks.AGENT_WAYS or not uid:
            return ""
        way = "" if way == marks.AGENT_STRAIGHT else way
        known = self._ways.get(uid)
        if known is not None and told <= known.last:  # a list has no order
            return ""
        is_news = way != (known.way if known is not None else "")
        since = told if known is None or is_news else known.since
        self._ways[uid] = _Told(way, since, told)
        if not is_news:
            return ""
        while len(self._ways) > _MANY:
            self._ways.popitem(last=False)
        pod = self._pods.get(self._namespace, str(regards.get("name") or ""))
        return next(iter(node_of(pod)), "") if pod is not None and pod.uid == uid else ""
