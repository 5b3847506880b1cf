"""Commands in containers by WebSocket, with the Python client of Kubernetes in place of kubectl.

Hazard: an API server passes the protocol that was asked for on to a node that declares WebSockets,
and translates where that declares none.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import kubernetes
from kubernetes.client import Configuration
from kubernetes.stream.ws_client import WSClient

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
SECONDS = 30


class CommandOutput(NamedTuple):
    """Result of a command."""

    protocol: str
    out: str
    err: str
    code: int


def of_api_server(kubeconfig: Path) -> Configuration:
    """Return how to talk to a cluster's API server."""
    found = Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=found)
    return found


def run(
    to: Configuration, path: str, options: list[tuple[str, str]], words: str, protocol: str
) -> CommandOutput:
    """Run the command that path and options name, send some words to it, return how it ended."""
    url = f"{to.host.replace('https://', 'wss://')}{path}?{urlencode(options)}"
    client = WSClient(to, url, {"sec-websocket-protocol": protocol}, capture_all=False)
    try:
        if words:
            client.write_stdin(words)
        client.run_forever(timeout=SECONDS)
        said = client.read_stdout(), client.read_stderr()
        return CommandOutput(str(client.subprotocol), *said, client.returncode)
    finally:
        client.sock.shutdown()  # where the server has ended, close() leaves it open
