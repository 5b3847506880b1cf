"""Live and ready as named facts, and a tiny server for them and, if so wanted, the metrics.

Owns `/healthz`, `/readyz` and `/metrics`, and has the loop measured while it answers. Knows nothing
of what the facts mean, and needs no web framework, so that the agent can use it. Hazard: this port
has no authentication; facts name parts of the program, never tenants or objects.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from prometheus_client import REGISTRY, CollectorRegistry

from telemetry import loop_lag
from telemetry.exposition import Exposition

Fact = Callable[[], str]
"""Returns an empty string when all is well, else a few words that say what is missing."""

_MAX_HEAD = 16 * 1024
_AT_ONCE = 32  # connections; whoever comes then is sent away
_PATIENCE = 5.0  # seconds for a client to say what it wants and to take the answer


class Probes:
    """The facts of one process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, has_metrics: bool = True) -> None:
        """Be live and ready until a fact says otherwise; `has_metrics`: show them here, to all."""
        self._live: dict[str, Fact] = {}
        self._ready: dict[str, Fact] = {}
        self._exposition = Exposition(registry) if has_metrics else None
        self._open = 0

    def live(self, name: str, fact: Fact) -> None:
        """Add a fact without which the process should be restarted."""
        self._live[name] = fact

    def ready(self, name: str, fact: Fact) -> None:
        """Add a fact without which the process cannot do its work yet."""
        self._ready[name] = fact

    @contextlib.asynccontextmanager
    async def served(self, port: int, host: str | None = None) -> AsyncIterator[int]:
        """Answer on a port (0: any free one, which is given) while the block runs."""
        server = await asyncio.start_server(self._answer, host, port, limit=_MAX_HEAD)
        try:
            async with loop_lag.measured():
                yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def serve(self, port: int, host: str | None = None) -> None:
        """Answer on a port until cancelled."""
        async with self.served(port, host):
            await asyncio.Event().wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= _AT_ONCE:
            writer.close()
            return
        self._open += 1
        try:
            await self._tell(reader, writer)
        finally:
            self._open -= 1

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that goes away or dawdles is its own problem.
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.respond(head))
                await writer.drain()
        writer.close()

    def respond(self, head: bytes) -> bytes:
        """Return the whole HTTP answer to a request's head."""
        line, _, rest = head.decode("latin-1").partition("\r\n")
        method, _, target = line.partition(" ")
        path = target.split(" ")[0].split("?")[0]
        content_type = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            code, body = "405 Method Not Allowed", b"only GET\n"
        elif path == "/healthz":
            code, body = _verdict(self._live)
        elif path == "/readyz":
            code, body = _verdict(self._ready)
        elif path == "/metrics" and self._exposition is not None:
            content_type, body = self._exposition.text(_header(rest, "accept"))
            code = "200 OK"
        else:
            code, body = "404 Not Found", self._what_is_here()
        answer = (
            f"HTTP/1.1 {code}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return answer.encode() + (b"" if method == "HEAD" else body)

    def _what_is_here(self) -> bytes:
        if self._exposition is None:
            return b"/healthz and /readyz are here\n"
        return b"/healthz, /readyz and /metrics are here\n"


def _verdict(facts: dict[str, Fact]) -> tuple[str, bytes]:
    found = {name: fact() for name, fact in facts.items()}
    lines = "".join(f"{name}: {missing or 'ok'}\n" for name, missing in found.items()) or "ok\n"
    code = "503 Service Unavailable" if any(found.values()) else "200 OK"
    return code, lines.encode()


def _header(lines: str, name: str) -> str:
    for line in lines.split("\r\n"):
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return ""
