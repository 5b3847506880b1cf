"""Kubelet of the agent's node.

Hazard: every call to it has the agent's broadest right, `nodes/proxy`. A call that was not
authorized would reach any pod of the node.
"""

from vnagent.client.https_client import HttpsClient
from vnagent.client.upstream_server import UpstreamLabels, UpstreamServer
from vnagent.protocol.errors import RefusalReason

KUBELET_PORT = 10250
KUBELET_LABELS = UpstreamLabels(
    name="the node's kubelet",
    unreachable=RefusalReason.KUBELET_DOWN,
    untrusted=RefusalReason.KUBELET_UNTRUSTED,
    denied=RefusalReason.KUBELET_DENIES,
    invalid=RefusalReason.KUBELET_ODD,
    too_large=RefusalReason.KUBELET_LARGE,
)


class KubeletUpstream(UpstreamServer):
    """Client that lists the kubelet's pods and opens streams to them."""

    def __init__(self, origin: HttpsClient) -> None:
        super().__init__(origin, KUBELET_LABELS)

    async def fetch_pods(self) -> bytes:
        """Return the list of pods as the kubelet has it. Raises RefusedError."""
        return await self.fetch("/pods")
