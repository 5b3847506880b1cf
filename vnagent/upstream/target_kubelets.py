"""Kubelets of a target, each dialled at the address in a pod's own status.

The module owns the choice of the dialled addresses. It must not know the pod's owner, because the
authorizer has decided. Hazard: a kubelet must have a certificate for the very address, from
authorities that the administrator named. Otherwise another server would get a credential that opens
every pod of the target. The target's kubelets write the address and no tenant can, but the address
alone proves nothing. A kubelet without such a certificate is not used, and there is no other
upstream.
"""

import ipaddress
from dataclasses import replace
from functools import lru_cache

from tenancy import addresses
from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.client.upstream_server import OpenedStream, UpstreamServer
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.upstream import kubelet
from vnagent.upstream.node_upstream import HeaderList, build_kubelet_target

MAX_CACHED_KUBELETS = 128
"""Number of kubelets with a cached TLS context. A cluster may have thousands, and each context
costs memory.
"""

TARGET_KUBELET_LABELS = replace(kubelet.KUBELET_LABELS, name="the kubelet of the pod's node")


class TargetKubelets:
    """Opener of streams to pods at the kubelets that run them."""

    def __init__(
        self, *, port: int, authorities: WatchedFile, token: WatchedFile, buffer: ReceiveBuffer
    ) -> None:
        """Store the settings. All kubelets use one port, and one of the authorities signs each."""
        self._port = port
        self._authorities = authorities
        self._token = token
        self._buffer = buffer
        self._by_address = lru_cache(MAX_CACHED_KUBELETS)(self._create_kubelet)

    async def open(self, route: Route, pod: OwnedPod, headers: HeaderList) -> OpenedStream:
        """Send a stream request for an admitted pod. Raises RefusedError."""
        target = build_kubelet_target(route, pod)
        return await self._by_address(get_kubelet_address(pod)).open(route.method, target, headers)

    def _create_kubelet(self, host: str) -> UpstreamServer:
        origin = HttpsClient(
            ServerAddress(host, self._port, host),
            authorities=self._authorities,
            token=self._token,
            buffer=self._buffer,
        )
        return UpstreamServer(origin, TARGET_KUBELET_LABELS)


def get_kubelet_address(pod: OwnedPod) -> str:
    """Return the kubelet's address of a pod, in one spelling. Raises RefusedError."""
    if not pod.host:
        # The message is that of an API server, which answers in the other mode.
        sentence = f"pod {pod.name!r} does not have a host assigned"
        raise RequestRefusedError(400, RefusalReason.NO_HOST, sentence)
    try:
        address = ipaddress.ip_address(pod.host)
    except ValueError:
        address = None
    # A scope would name a network interface of the agent.
    if address is None or "%" in pod.host or addresses.check_remote_address(address):
        sentence = (
            f"the address of the node in {TARGET_KUBELET_LABELS.name} is not the address of a"
            " machine"
        )
        raise RequestRefusedError(502, RefusalReason.KUBELET_ODD, sentence)
    return str(address)
