"""Kubelet of the agent's node.

Hazard: every call to it has the agent's broadest right, `nodes/proxy`. A call that was not
authorized would reach any pod of the node.
"""

from vnagent.client.https_client import Origin
from vnagent.client.upstream_server import Peer, Words
from vnagent.protocol.errors import Reason

PORT = 10250
WORDS = Words(
    name="the node's kubelet",
    down=Reason.KUBELET_DOWN,
    untrusted=Reason.KUBELET_UNTRUSTED,
    denies=Reason.KUBELET_DENIES,
    odd=Reason.KUBELET_ODD,
    large=Reason.KUBELET_LARGE,
)


class Kubelet(Peer):
    """Client that lists the kubelet's pods and opens streams to them."""

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin, WORDS)

    async def fetch_pods(self) -> bytes:
        """Return the list of pods as the kubelet has it. Raises RefusedError."""
        return await self.fetch("/pods")
