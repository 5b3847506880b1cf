"""A pod's port on loopback, as `kubectl port-forward` gives it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.kubectl import KubectlRunner


@contextmanager
def forwarded(
    kubectl: KubectlRunner, pod: str, port: int, namespace: str = "default"
) -> Iterator[int]:
    """Forward a port for the length of a block. Yields the port of 127.0.0.1 that leads to it."""
    asked = ("-n", namespace, "port-forward", f"pod/{pod}", f":{port}")
    with kubectl.running(*asked) as forwarding:
        assert forwarding.stdout is not None
        assert forwarding.stderr is not None
        told = forwarding.stdout.readline()
        assert told, f"kubectl port-forward ended: {forwarding.stderr.read()}"
        yield int(told.rpartition("127.0.0.1:")[2].split()[0])


def read_from(port: int) -> bytes:
    """Connect to a port of 127.0.0.1 and return what comes first, empty when it is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        return connection.recv(100)
