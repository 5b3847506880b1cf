"""Clients whose wires end in clusters of this process, for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kubeio.config.endpoint import Endpoint
from kubeio.http import rest, tls_contexts
from kubeio.http.transport_protocol import Fence, HttpTransport

TransportFactory = Callable[[Endpoint, "Fence | None"], HttpTransport]


@contextlib.contextmanager
def directed(wires: TransportFactory) -> Iterator[None]:
    """Have every client that is opened from now on speak through the wire that `wires` gives it."""
    before, context = rest._create_transport, tls_contexts.create_context

    def chosen(endpoint: Endpoint, _: Any, options: rest.ClientOptions) -> HttpTransport:
        return wires(endpoint, options.fence)

    rest._create_transport = chosen
    try:
        yield
    finally:
        rest._create_transport, tls_contexts.create_context = before, context
