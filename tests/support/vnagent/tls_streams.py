"""One channel to a peer with scripted behaviour, and a sink for it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

import trustme

from tests.support import tls_sockets
from vnagent.client.https_client import connect
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import StreamLostError, TlsStream


@contextlib.asynccontextmanager
async def dialled(
    authority: trustme.CA, behave: Callable[[ssl.SSLSocket], None]
) -> AsyncIterator[TlsStream]:
    """Connect to a peer with scripted behaviour."""
    context = tls_sockets.server_context(authority, "127.0.0.1")
    with tls_sockets.serving(context, behave) as (port, _):
        found = await connect(
            "127.0.0.1",
            port,
            context=tls_sockets.client_context(authority),
            buffer=ReceiveBuffer(),
            server_name="127.0.0.1",
        )
        try:
            async with asyncio.timeout(tls_sockets.PATIENCE_SECONDS):
                yield found
        finally:
            found.abort()


def send_then_wait(*parts: bytes) -> Callable[[ssl.SSLSocket], None]:
    """Send some parts as records of their own, and stay until the other side has closed."""

    def behave(peer: ssl.SSLSocket) -> None:
        for part in parts:
            peer.sendall(part)
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    return behave


class GatheringSink:
    """A sink that remembers pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.has_ended = asyncio.Event()

    def handle_data(self, *chunks: bytes | memoryview) -> None:
        self.pieces += map(bytes, chunks)

    def handle_end(self) -> None:
        self.has_ended.set()

    def handle_lost(self, error: StreamLostError) -> None:
        raise error

    def set_writable(self, is_writable: bool) -> None:
        pass
