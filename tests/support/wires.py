"""The two wires, so that a test can be run over each: they have to be the same to a caller."""

from __future__ import annotations

import ssl

import pytest

from kubeio.config.endpoint import Endpoint
from kubeio.http import rest
from kubeio.http.proxy_transport import ProxyTransport
from kubeio.http.transport_protocol import Fence

NAMES = ("lean", "aiohttp")


def use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each transport that is opened from now on take this wire."""
    if name == "aiohttp":
        monkeypatch.setattr(rest, "_create_transport", _aiohttp)


def _aiohttp(
    endpoint: Endpoint,
    context: ssl.SSLContext | None,
    connections: int,
    fence: Fence | None,
    most: int | None,
) -> ProxyTransport:
    return ProxyTransport(
        endpoint.server,
        context=context,
        server_name=endpoint.tls_server_name or None,
        connections=connections,
        proxy="",
        fence=fence,
        max_response_bytes=most,
    )
