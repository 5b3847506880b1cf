"""Two doors to the same containers: the kubelet's own port, and an agent's port.

Owns each client configuration: address, trusted authority, identity, and the name of the pods'
namespace. The requests are otherwise the same. Must not know the measurement.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode


@dataclass(frozen=True, kw_only=True)
class ApiEntry:
    """One address. The server's certificate has the name `host` and is verified."""

    name: str
    host: str
    port: int
    authority: Path
    certificate: Path
    key: Path
    namespace: str

    def logs(self, pod: str, **options: str | int) -> str:
        """Return the request target of the log of a pod's container `main`."""
        return _target("containerLogs", self.namespace, pod, list(options.items()))

    def execs(self, pod: str, *words: str, **options: str | int) -> str:
        """Return the request target of a command in that container."""
        query = [("command", word) for word in words]
        return _target("exec", self.namespace, pod, [*query, *options.items()])

    def url(self, target: str) -> str:
        """Return a whole URL."""
        return f"https://{self.host}:{self.port}{target}"

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a client."""
        found = ssl.create_default_context(cafile=str(self.authority))
        found.load_cert_chain(self.certificate, self.key)
        return found


def _target(verb: str, namespace: str, pod: str, query: list[tuple[str, str | int]]) -> str:
    path = f"/{verb}/{namespace}/{pod}/main"
    return f"{path}?{urlencode(query)}" if query else path
