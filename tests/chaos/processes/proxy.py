"""A man in the middle, between the syncer and one API server: TLS ends here and begins again.

Owns the connections and what one fault can do to one exchange. Listens on loopback only, with an
authority of its own, which stands in the kubeconfig that it hands out. Speaks upstream as the very
user of that kubeconfig. Must not choose faults: `faults` does. Hazard: what a real API server never
does comes of faults only, so without one every byte of a body goes on as it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from collections.abc import Awaitable, Iterator
from typing import Self
from urllib.parse import urlsplit

import trustme

from kubeio.config.endpoint import Endpoint
from kubeio.http import tls_contexts
from tests.chaos.processes import http
from tests.chaos.processes.faults import FaultScript, RequestFault
from tests.chaos.processes.http import ProxiedRequest, ProxiedResponse
from tests.chaos.processes.relay import RelayFunction, WatchRelay
from tests.support.controlplane import kubeconfig
from tests.support.processes import free_port

_BREAKS = (OSError, EOFError, asyncio.LimitOverrunError, ssl.SSLError, ValueError)


class ProxiedExchange:
    """One request on its way, in the hands of a fault or of none."""

    def __init__(
        self,
        proxy: FaultProxy,
        request: ProxiedRequest,
        client: ProxiedConnection,
        fault: RequestFault | None,
    ) -> None:
        self.request = request
        self.seconds = fault.seconds if fault is not None else 0.0
        self.keeps = False
        """Whether another request may follow on its connection."""
        self._proxy = proxy
        self._client = client

    @property
    def chance(self) -> random.Random:
        """The script's own."""
        return self._proxy.script.chance

    async def forward(self, request: ProxiedRequest | None = None) -> ProxiedResponse:
        """Have the server answer, as a whole. `request` in place of the one that came."""
        reader = await self._client.asked(request or self.request)
        head = await http.read_head(reader)
        return ProxiedResponse(head, await http.read_body(reader, head))

    async def pass_on(self, reply: ProxiedResponse) -> None:
        """Give the client its answer."""
        self._client.writer.write(reply.encoded())
        await self._client.writer.drain()
        self.keeps = True

    async def stream(self, piece: bytes) -> None:
        """Give the client one more piece of an answer without an end.

        Raises ConnectionResetError if the client is gone. `drain` does not notice it each time.
        """
        if self._client.writer.is_closing():
            raise ConnectionResetError("the client is gone")
        if not self.keeps:
            self.keeps = True
            framing = "Transfer-Encoding: chunked"
            self._client.writer.write(http.reply(200, b"").head.encoded(framing))
        self._client.writer.write(http.chunk(piece))
        await self._client.writer.drain()

    async def pass_part(self, reply: ProxiedResponse, share: float) -> None:
        """Give the client the head and a part of the body, and break the connection."""
        whole = reply.encoded()
        at = len(whole) - len(reply.body) + int(share * len(reply.body))
        self._client.writer.write(whole[:at])
        await self._client.writer.drain()
        await asyncio.sleep(0.01)  # or the end of the connection comes before the bytes
        self.cut()

    async def drip(self, reply: ProxiedResponse, seconds: float) -> None:
        """Give the client its answer drop by drop."""
        whole, drops = reply.encoded(), 20
        size = max(1, len(whole) // drops)
        for at in range(0, len(whole), size):
            self._client.writer.write(whole[at : at + size])
            await self._client.writer.drain()
            await asyncio.sleep(seconds / drops)
        self.keeps = True

    async def refuse(self, code: int, reason: str, *, retry_after: int | None = None) -> None:
        """Answer in the server's place."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": f"injected: {reason}",
        }
        told = [] if retry_after is None else [("Retry-After", str(retry_after))]
        if retry_after is not None:
            self._proxy.script.told(self._proxy.side, self.request, retry_after)
        await self.pass_on(http.reply(code, json.dumps(status).encode(), told))

    async def through(self, treat: RelayFunction | None = None) -> None:
        """Do what happens where no one stands in the middle. `treat` is for a watch's lines."""
        reader = await self._client.asked(self.request)
        head = await http.read_head(reader)
        if not self.request.is_watch or head.status != 200:
            await self.pass_on(ProxiedResponse(head, await http.read_body(reader, head)))
            return
        relay = WatchRelay(self._client.writer)
        relay.treat = treat
        self._client.writer.write(head.encoded("Transfer-Encoding: chunked"))
        await self._client.writer.drain()
        with self._proxy.following(relay):
            await self._client.until_left(_relayed(relay, reader))

    async def silence(self) -> None:
        """Say nothing until the client leaves or the script ends."""
        await self._client.until_left(self._proxy.script.healed.wait())
        self.cut()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Be known to have still to arrive."""
        self._proxy.script.under_way += 1
        try:
            yield
        finally:
            self._proxy.script.under_way -= 1

    def cut(self) -> None:
        """Break the connection."""
        self.keeps = False
        self._client.writer.transport.abort()


async def _relayed(relay: WatchRelay, reader: asyncio.StreamReader) -> None:
    async for piece in http.chunks(reader):
        await relay.hear(piece)
    if relay.is_silent:
        await asyncio.Event().wait()  # its client is not told of the end either
    await relay.end()


class ProxiedConnection:
    """A client's connection and ours to the server behind it."""

    def __init__(
        self,
        upstream: tuple[str, int, ssl.SSLContext | None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.reader, self.writer = reader, writer
        self._upstream = upstream
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def asked(self, request: ProxiedRequest) -> asyncio.StreamReader:
        """Send a request on. Return what its answer is read from."""
        if self._server is not None and self._server[0].at_eof():
            self.close_upstream()
        if self._server is None:
            host, port, context = self._upstream
            self._server = await asyncio.open_connection(
                host, port, ssl=context, limit=http.HEAD_BYTES
            )
        reader, writer = self._server
        writer.write(request.encoded())
        await writer.drain()
        return reader

    async def until_left(self, doing: Awaitable[object]) -> None:
        """Do something until it ends or the client goes away."""
        work = asyncio.ensure_future(doing)
        leaving = asyncio.ensure_future(self.reader.read(1))
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (work, leaving):
                task.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)

    def close_upstream(self) -> None:
        """Leave the server."""
        if self._server is not None:
            self._server[1].transport.abort()
            self._server = None

    def close(self) -> None:
        """Leave both."""
        self.close_upstream()
        self.writer.transport.abort()


class FaultProxy:
    """Stands before one API server. Use as `async with`."""

    def __init__(self, side: str, endpoint: Endpoint, script: FaultScript) -> None:
        """Make nothing but an authority. `side` is what scripts call the server."""
        self.side = side
        self.script = script
        self.requests = 0
        self.relays: list[WatchRelay] = []
        self._endpoint = endpoint
        url = urlsplit(endpoint.server)
        context = tls_contexts.create_context(endpoint) if endpoint.is_encrypted else None
        self._upstream = (str(url.hostname), url.port or 443, context)
        self._authority = trustme.CA()
        self._port = free_port()
        self._lines: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> Endpoint:
        """The server, by way of here."""
        return Endpoint(
            server=f"https://127.0.0.1:{self._port}",
            name=self.side,
            ca=self._authority.cert_pem.bytes(),
        )

    def kubeconfig(self) -> bytes:
        """Return a kubeconfig for the same user, by way of here."""
        there, pair = self.endpoint, (self._endpoint.client_cert, self._endpoint.client_key)
        return kubeconfig(self.side, there.server, there.ca, "syncer", pair)

    async def __aenter__(self) -> Self:
        """Listen."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, ssl=context, limit=http.HEAD_BYTES
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Break everything off."""
        assert self._server is not None
        self._server.close()
        for task in list(self._lines):
            task.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    @contextlib.contextmanager
    def following(self, relay: WatchRelay) -> Iterator[None]:
        """Know of a watch while it is open."""
        self.relays.append(relay)
        try:
            yield
        finally:
            relay.is_open = False
            self.relays.remove(relay)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        line = ProxiedConnection(self._upstream, reader, writer)
        try:
            while await self._exchange(line):
                pass
        except (*_BREAKS, asyncio.CancelledError):
            pass  # the client sees its connection end, as it does when a server dies
        finally:
            line.close()
            self._lines.discard(task)

    async def _exchange(self, line: ProxiedConnection) -> bool:
        request = await http.read_request(line.reader)
        self.requests += 1
        fault = self.script.fate(self.side, request)
        exchange = ProxiedExchange(self, request, line, fault)
        if fault is None:
            await exchange.through()
        else:
            await fault.do(exchange)
        return exchange.keeps
