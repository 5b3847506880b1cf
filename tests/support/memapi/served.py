"""API of one cluster on loopback, for a test that needs a real connection to it.

Owns the sockets for the length of a block, and a record of every request. A test may refuse
requests, send a watch lines that no real server sends, and end watches (`cluster.cut`). Must not
know the tested code. Hazard: it runs in the test's loop. A test that blocks the loop blocks the
server.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Self

import orjson

from kubeio.config.endpoint import Endpoint
from tenancy.resources import Resource
from tests.support.memapi.api import ApiAnswer, ApiRequest, MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.connection import ApiConnection, WatchConnections
from tests.support.memapi.refusals import StatusError

Refusal = Callable[[ApiRequest], StatusError | None]


class Served(MemoryApi):
    """Records every request, and answers it unless the test refuses it."""

    def __init__(self, cluster: MemoryCluster, refusal: Refusal = lambda _: None) -> None:
        super().__init__(cluster)
        self.requests: list[ApiRequest] = []
        self.refusal = refusal
        """The answer instead of an object, or None."""
        self.port = 0
        self._connections: list[ApiConnection] = []
        self._followed = WatchConnections()

    @property
    def endpoint(self) -> Endpoint:
        """The address without TLS."""
        return Endpoint(server=f"http://127.0.0.1:{self.port}", name="memapi")

    @property
    def asked(self) -> list[str]:
        """Request targets."""
        return [request.target for request in self.requests]

    def answer(self, request: ApiRequest) -> ApiAnswer:
        """Record a request and answer it."""
        self.requests.append(request)
        refusal = self.refusal(request)
        return super().answer(request) if refusal is None else (refusal.code, refusal.encoded())

    def say(self, kind: object, found: object, of: Resource | None = None) -> None:
        """Send an event of the test's own making to every watch, or to those of one kind."""
        line = orjson.dumps({"type": kind, "object": found}) + b"\n"
        for connection in self._connections:
            if of is None or connection.watched == of:
                connection.say(line)

    def bookmark(self) -> None:
        """Send every watch a bookmark now."""
        for connection in self._connections:
            connection.bookmark()

    @contextlib.asynccontextmanager
    async def running(
        self, *, tls: ssl.SSLContext | None = None, chunk_bytes: int = 0
    ) -> AsyncIterator[Self]:
        """Listen while the block runs. Watches are sent in chunks of so many bytes. 0: as large as
        they are.
        """

        def connection() -> ApiConnection:
            made = ApiConnection(self, self._followed, chunk_bytes=chunk_bytes)
            self._connections.append(made)
            return made

        loop = asyncio.get_running_loop()
        server = await loop.create_server(connection, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for each in self._connections:
                each.close()
            await server.wait_closed()
            await asyncio.sleep(0)  # the sockets are closed in the next turn of the loop
