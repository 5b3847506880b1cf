"""A server of this machine's loopback, reachable at the same address in network namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

_INNER = """
import asyncio, sys

async def main(port, socket):
    async def serve(reader, writer):
        other_reader, other_writer = await asyncio.open_unix_connection(socket)
        await asyncio.gather(pipe(reader, other_writer), pipe(other_reader, writer))

    async def pipe(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
"""


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _start_inner(space: str, port: int, socket: Path) -> subprocess.Popen[bytes]:
    words = ["ip", "netns", "exec", space, sys.executable, "-c", _INNER, str(port), str(socket)]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


@contextlib.asynccontextmanager
async def reachable_in(spaces: list[str], port: int, folder: Path) -> AsyncIterator[None]:
    """Forward a port of 127.0.0.1 in each namespace to the same port here, over a Unix socket."""
    socket = folder / "api.sock"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pipe(reader, there_writer), _pipe(there_reader, writer))

    server = await asyncio.start_unix_server(serve, socket)
    inner = [_start_inner(space, port, socket) for space in spaces]
    try:
        for process in inner:
            assert process.stdout is not None
            await asyncio.to_thread(process.stdout.readline)
            process.stdout.close()
        yield
    finally:
        for process in inner:
            process.kill()
            process.wait()
        server.close()
