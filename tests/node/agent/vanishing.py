"""Run in a network namespace of its own: a machine that two connections lead to vanishes.

One connection is written to all the time and read. The other's reader has paused, so that its
window is full. Prints as JSON what each is said to be: while the machine is there, and after it has
gone.
"""

import asyncio
import json
import sys
from typing import cast

import uvloop

from tests.support.eventually import eventually
from tests.support.two_machines import HERE, on, other_machine, vanish
from vnagent.stream.keepalive import enable_keepalive, is_peer_silent

SILENCE_SECONDS = 1.5
PATIENCE_SECONDS = 120.0
PIECE = bytes(4096)
READER = f"""
import socket, sys
read, paused = (socket.create_connection(("{HERE}", int(port))) for port in sys.argv[1:])
while read.recv(65536):
    pass
"""


class EndlessWriter(asyncio.Protocol):
    """Writes as long as it may."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.is_writable = True

    def pause_writing(self) -> None:
        """Stop."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Go on."""
        self.is_writable = True

    @property
    def is_peer_silent(self) -> bool:
        """Pods that the agent would find."""
        return is_peer_silent(self.transport, SILENCE_SECONDS)


async def served(there: int) -> dict[str, bool]:
    """Serve both, and look at them before and after."""
    loop = asyncio.get_running_loop()
    writers: list[EndlessWriter] = []

    def accept() -> EndlessWriter:
        writers.append(EndlessWriter())
        return writers[-1]

    servers = [await loop.create_server(accept, HERE, 0) for _ in range(2)]
    for server in servers:
        enable_keepalive(server.sockets[0])  # as the agent does
    ports = [str(server.sockets[0].getsockname()[1]) for server in servers]
    reader = await asyncio.create_subprocess_exec(*on(there, sys.executable, "-c", READER, *ports))
    try:
        await eventually(lambda: len(writers) == 2)
        read, paused = writers  # in the order in which the reader connects

        async def write() -> None:
            while True:
                for each in writers:
                    if each.is_writable:
                        each.transport.write(PIECE)
                await asyncio.sleep(0.01)

        writing = asyncio.ensure_future(write())
        await eventually(lambda: not paused.is_writable)
        found = {}
        is_said = False
        for _ in range(int(2 * SILENCE_SECONDS / 0.1)):
            await asyncio.sleep(0.1)
            is_said = is_said or read.is_peer_silent or paused.is_peer_silent
        found["while it is there"] = is_said
        await asyncio.to_thread(vanish, there)
        await eventually(lambda: read.is_peer_silent, within=PATIENCE_SECONDS)
        found["read, after"] = True
        await eventually(lambda: paused.is_peer_silent, within=PATIENCE_SECONDS)
        found["paused, after"] = True
        writing.cancel()
        return found
    finally:
        reader.kill()
        await reader.wait()


def main() -> None:
    """Make the other machine, and look."""
    with other_machine() as there:
        print(json.dumps(uvloop.run(served(there))))


if __name__ == "__main__":
    main()
