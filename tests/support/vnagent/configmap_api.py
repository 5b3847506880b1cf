"""A super API server with the ConfigMap of the tenants' permissions."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping

from tenancy.resources import CONFIG_MAPS, NAMESPACES
from tests.support.memapi import clusters, verbs
from tests.support.memapi.api import ApiRequest
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.served import Refusal, Served

NAME = "vn-agent-access"
NAMESPACE = "vc-manager"
CHUNK_BYTES = 41  # a line of a watch comes in pieces


class ConfigMapApi(Served):
    """A cluster in memory, and short ways to the one ConfigMap."""

    def __init__(
        self, data: Mapping[str, str] | None = None, refusal: Refusal = lambda _: None
    ) -> None:
        super().__init__(clusters.fresh("super", "10.96.0.0/16", accounts=False), refusal)
        space = {"metadata": {"name": NAMESPACE}}
        verbs.create(self.cluster, self.cluster.of(NAMESPACES), "", space, "test")
        self._config_maps = self.cluster.of(CONFIG_MAPS)
        self.put(data)

    @property
    def version(self) -> int:
        """The revision of the ConfigMap."""
        found = self._config_maps.get(NAMESPACE, NAME)
        assert found is not None
        return found.revision

    def put(self, data: Mapping[str, str] | None, name: str = NAME) -> None:
        """Write a ConfigMap, or delete it."""
        there = self._config_maps.get(NAMESPACE, name)
        if data is None:
            if there is not None:
                verbs.delete(self._config_maps, there, {})
        elif there is None:
            body = {"metadata": {"name": name}, "data": dict(data)}
            verbs.create(self.cluster, self._config_maps, NAMESPACE, body, "test")
        else:
            change = lambda body: {**body, "data": dict(data)}  # noqa: E731
            verbs.patch(self._config_maps, there, change, {}, "test")

    def relay(self, peer: ssl.SSLSocket, head: bytes) -> None:
        """Answer a request that has arrived at another server, from a thread of that server."""
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            plain.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            while part := plain.recv(65536):
                peer.sendall(part)


def forbidding(word: str) -> Refusal:
    """Refuse the requests whose target contains a word."""

    def refusal(request: ApiRequest) -> StatusError | None:
        is_refused = word in request.target
        return StatusError(403, "Forbidden", "no") if is_refused else None

    return refusal
