"""Liveness and readiness probes from named facts, and a small server for them and the metrics.

Owns `/healthz`, `/readyz` and the optional `/metrics`, and measures the loop while it serves. Knows
nothing of the meaning of facts. It needs no web framework, so that the agent can use it.

Hazard: facts must name parts of the program, never tenants or objects. This port has no
authentication.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from prometheus_client import REGISTRY, CollectorRegistry

from telemetry import loop_lag
from telemetry.exposition import Exposition

HealthCheck = Callable[[], str]
"""Returns an empty string if all is well, or a few words about the fault."""

_MAX_HEAD_BYTES = 16 * 1024
_MAX_CONNECTIONS = 32  # connections, and further ones are closed at once
_REQUEST_SECONDS = 5.0  # seconds for a client to send its request and to read the answer


class HealthProbes:
    """The facts of one process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, has_metrics: bool = True) -> None:
        """Start live and ready. With `has_metrics`, serve the metrics to all clients."""
        self._live: dict[str, HealthCheck] = {}
        self._ready: dict[str, HealthCheck] = {}
        self._exposition = Exposition(registry) if has_metrics else None
        self._open = 0

    def add_liveness_check(self, name: str, fact: HealthCheck) -> None:
        """Add a fact. The process should be restarted while it fails."""
        self._live[name] = fact

    def add_readiness_check(self, name: str, fact: HealthCheck) -> None:
        """Add a fact. The process cannot do its work while it fails."""
        self._ready[name] = fact

    @contextlib.asynccontextmanager
    async def serve_in_block(self, port: int, host: str | None = None) -> AsyncIterator[int]:
        """Serve on a port while the block runs. Port 0 means any free one. Yields the port."""
        server = await asyncio.start_server(
            self._handle_connection, host, port, limit=_MAX_HEAD_BYTES
        )
        try:
            async with loop_lag.measure_lag():
                yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def serve_forever(self, port: int, host: str | None = None) -> None:
        """Serve on a port until cancelled."""
        async with self.serve_in_block(port, host):
            await asyncio.Event().wait()

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._open >= _MAX_CONNECTIONS:
            writer.close()
            return
        self._open += 1
        try:
            await self._handle_request(reader, writer)
        finally:
            self._open -= 1

    async def _handle_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # A client that disconnects or is slow is ignored.
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.build_response(head))
                await writer.drain()
        writer.close()

    def build_response(self, head: bytes) -> bytes:
        """Return the whole HTTP answer to a request's head."""
        line, _, rest = head.decode("latin-1").partition("\r\n")
        method, _, target = line.partition(" ")
        path = target.split(" ")[0].split("?")[0]
        content_type = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            code, body = "405 Method Not Allowed", b"only GET\n"
        elif path == "/healthz":
            code, body = _evaluate(self._live)
        elif path == "/readyz":
            code, body = _evaluate(self._ready)
        elif path == "/metrics" and self._exposition is not None:
            content_type, body = self._exposition.render(_find_header(rest, "accept"))
            code = "200 OK"
        else:
            code, body = "404 Not Found", self._build_index()
        answer = (
            f"HTTP/1.1 {code}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return answer.encode() + (b"" if method == "HEAD" else body)

    def _build_index(self) -> bytes:
        if self._exposition is None:
            return b"/healthz and /readyz are here\n"
        return b"/healthz, /readyz and /metrics are here\n"


def _evaluate(facts: dict[str, HealthCheck]) -> tuple[str, bytes]:
    found = {name: fact() for name, fact in facts.items()}
    lines = "".join(f"{name}: {missing or 'ok'}\n" for name, missing in found.items()) or "ok\n"
    code = "503 Service Unavailable" if any(found.values()) else "200 OK"
    return code, lines.encode()


def _find_header(lines: str, name: str) -> str:
    for line in lines.split("\r\n"):
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return ""
