"""A pump between a caller and a kubelet, over TLS, for the length of a test."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import trustme

from tests.support import tls_sockets
from vnagent.client.https_client import connect
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.relay import RelayDeadlines, StreamRelay
from vnagent.stream.stream_states import StreamEnd
from vnagent.stream.tls_stream import TlsStream

QUICK = RelayDeadlines(check_seconds=0.05)


@dataclass
class RelayListener:
    """A listener that joins its first caller to a kubelet through a pump."""

    authority: trustme.CA
    port: int = 0
    pumps: list[StreamRelay] = field(default_factory=list)
    ends: list[StreamEnd] = field(default_factory=list)
    callers: list[TlsStream] = field(default_factory=list)
    kubelets: list[TlsStream] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def dial(self, **options: int) -> ssl.SSLSocket:
        """Connect a caller."""
        context = tls_sockets.client_context(self.authority)
        return tls_sockets.dial(self.port, context, **options)

    async def end(self) -> StreamEnd:
        """Wait for the stream's end."""
        async with asyncio.timeout(tls_sockets.PATIENCE_SECONDS):
            await self.done.wait()
        return self.ends[0]


@contextlib.asynccontextmanager
async def relay(
    authority: trustme.CA,
    kubelet: Callable[[ssl.SSLSocket], None],
    *,
    is_two_way: bool = True,
    deadlines: RelayDeadlines = QUICK,
    ignores_troubles: bool = False,
) -> AsyncIterator[RelayListener]:
    """Relay one stream to a kubelet that serves it so, and see that it raised nothing."""
    context = tls_sockets.server_context(authority, "127.0.0.1")
    with tls_sockets.serving(context, kubelet) as (port, troubles):
        async with _listening(authority, port, is_two_way, deadlines) as found:
            yield found
    assert ignores_troubles or troubles == []


@contextlib.asynccontextmanager
async def _listening(
    authority: trustme.CA, kubelet_port: int, is_two_way: bool, deadlines: RelayDeadlines
) -> AsyncIterator[RelayListener]:
    buffer = ReceiveBuffer()
    context = tls_sockets.server_context(authority, "127.0.0.1")
    trust = tls_sockets.client_context(authority)
    found = RelayListener(authority)

    async def serve(caller: TlsStream) -> None:
        await caller.wait_opened()
        kubelet = await connect(
            "127.0.0.1", kubelet_port, context=trust, buffer=buffer, server_name="127.0.0.1"
        )
        pump = StreamRelay(caller, kubelet, is_two_way=is_two_way, deadlines=deadlines)
        found.pumps.append(pump)
        found.callers.append(caller)
        found.kubelets.append(kubelet)
        found.ends.append(await pump.run())
        found.done.set()

    async with asyncio.TaskGroup() as tasks:
        server = await asyncio.get_running_loop().create_server(
            lambda: TlsStream(
                context, buffer, accepted=lambda caller: tasks.create_task(serve(caller)) and None
            ),
            "127.0.0.1",
            0,
        )
        found.port = server.sockets[0].getsockname()[1]
        try:
            yield found
        finally:
            server.close()


def echo(peer: ssl.SSLSocket) -> None:
    """Send back what comes, and end when it ends."""
    while chunk := peer.recv(65536):
        peer.sendall(chunk)
    tls_sockets.half_close(peer)


def wait_for_end(peer: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError):
        tls_sockets.read_all(peer)
