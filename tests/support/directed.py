"""Clients whose wires end in clusters of this process, for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kubeio import transport
from kubeio.endpoint import Endpoint
from kubeio.wire import Fence, Wire

Wires = Callable[[Endpoint, "Fence | None"], Wire]


@contextlib.contextmanager
def directed(wires: Wires) -> Iterator[None]:
    """Have every client that is opened from now on speak through the wire that `wires` gives it."""
    before, context = transport._wire, transport.tls.context

    def chosen(endpoint: Endpoint, *others: Any) -> Wire:
        _, _, fence, _ = others
        return wires(endpoint, fence)

    transport._wire = chosen
    try:
        yield
    finally:
        transport._wire, transport.tls.context = before, context
