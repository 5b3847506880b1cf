"""The kubelets of a target, each dialled at the address that a pod's own status names.

Owns which addresses are dialled. Must not know whose a pod is: the gate has decided. Hazard: the
credential shown there opens every pod of that cluster. The address is written by that cluster's
kubelets and by nobody's tenant, and still proves nothing: a kubelet counts by a certificate for the
very address, from authorities that the administrator named. Without one there is no other way.
"""

import ipaddress
from dataclasses import replace
from functools import lru_cache

from tenancy import addresses
from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.client.https_client import Address, Origin
from vnagent.client.upstream_server import Opened, Peer
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.routes import Route
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.tls_stream import ReceiveBuffer
from vnagent.upstream import kubelet
from vnagent.upstream.node_upstream import Headers, kubelet_target

KEPT = 128
"""Kubelets whose TLS context is kept: a cluster may have thousands, and each has some memory."""

WORDS = replace(kubelet.WORDS, name="the kubelet of the pod's node")


class Kubelets:
    """Opens streams to pods at the kubelets that run them."""

    def __init__(
        self, *, port: int, authorities: WatchedFile, token: WatchedFile, buffer: ReceiveBuffer
    ) -> None:
        """All of them listen at one port, and one authority or another vouches for each."""
        self._port = port
        self._authorities = authorities
        self._token = token
        self._buffer = buffer
        self._at = lru_cache(KEPT)(self._make)

    async def open(self, route: Route, pod: OwnedPod, headers: Headers) -> Opened:
        """Send a stream request for a pod that was let through; raises RefusedError."""
        target = kubelet_target(route, pod)
        return await self._at(host_of(pod)).open(route.method, target, headers)

    def _make(self, host: str) -> Peer:
        origin = Origin(
            Address(host, self._port, host),
            authorities=self._authorities,
            token=self._token,
            buffer=self._buffer,
        )
        return Peer(origin, WORDS)


def host_of(pod: OwnedPod) -> str:
    """Return the address of the kubelet that runs a pod, in one spelling; raises RefusedError."""
    if not pod.host:
        # As an API server says it, which is who answers in the other mode.
        sentence = f"pod {pod.name!r} does not have a host assigned"
        raise RefusedError(400, Reason.NO_HOST, sentence)
    try:
        address = ipaddress.ip_address(pod.host)
    except ValueError:
        address = None
    # A scope is the name of an interface of ours.
    if address is None or "%" in pod.host or addresses.local_problem(address):
        sentence = f"the address that {WORDS.name} is said to have is none of a machine"
        raise RefusedError(502, Reason.KUBELET_ODD, sentence)
    return str(address)
