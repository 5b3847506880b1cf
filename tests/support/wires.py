"""The two wires, so that a test can be run over each: they have to be the same to a caller."""

from __future__ import annotations

import ssl

import pytest

from kubeio.config.endpoint import Endpoint
from kubeio.http import rest
from kubeio.http.proxy_transport import ProxyTransport

NAMES = ("lean", "aiohttp")


def use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each transport that is opened from now on take this wire."""
    if name == "aiohttp":
        monkeypatch.setattr(rest, "_create_transport", _aiohttp)


def _aiohttp(
    endpoint: Endpoint, context: ssl.SSLContext | None, options: rest.ClientOptions
) -> ProxyTransport:
    return ProxyTransport(
        endpoint.server,
        context=context,
        server_name=endpoint.tls_server_name or None,
        connections=options.connections,
        proxy="",
        fence=options.fence,
        max_response_bytes=options.max_response_bytes,
    )
