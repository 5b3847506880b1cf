"""This node's kubelet.

Hazard: every call to it is made with the agent's broadest right, `nodes/proxy`.
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
    """Lists its pods and opens streams to them."""

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin, WORDS)

    async def fetch_pods(self) -> bytes:
        """Return the list of pods as the kubelet has it; raises RefusedError."""
        return await self.fetch("/pods")
