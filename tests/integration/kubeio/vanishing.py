"""Run in a network namespace of its own: the server of a stream that says nothing vanishes.

Prints as JSON whether the stream stood while the server was there, and what was said of it after.
The kernel's patience is cut to a few seconds, and no one but the kernel has any.
"""

import asyncio
import json
import sys

import pytest
import uvloop

from kubeio import errors
from kubeio.http import connection_pool
from kubeio.http.transport_protocol import HttpRequest
from tests.support.two_machines import THERE, on, other_machine, vanish

PATIENCE_SECONDS = 600.0
PORT = 8001
SERVER = f"""
import socket
listener = socket.create_server(("{THERE}", {PORT}))
print("listens", flush=True)
connection, _ = listener.accept()
connection.recv(65536)
connection.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nhi\\r\\n")
connection.recv(1)
"""
QUIET_SECONDS = 6.0
"""Longer than the kernel's patience."""
SHORT = (1, 1, 3)


async def watched(there: int) -> dict[str, object]:
    """Watch over the stream, before and after."""
    words = on(there, sys.executable, "-c", SERVER)
    server = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    await server.stdout.readline()
    made = connection_pool.ConnectionPool(
        f"http://{THERE}:{PORT}", context=None, server_name=None, connections=1
    )
    try:
        stream = await made.stream(
            HttpRequest("GET", "/", (), None, errors.RequestDescription("server", "GET", "/")),
            connect=PATIENCE_SECONDS,
            idle_timeout=PATIENCE_SECONDS,
        )
        assert await stream.read() == b"hi"
        reading = asyncio.ensure_future(stream.read())
        await asyncio.wait((reading,), timeout=QUIET_SECONDS)
        found: dict[str, object] = {"stands while it is there": not reading.done()}
        await asyncio.to_thread(vanish, there)
        try:
            await reading
        except errors.Unavailable as problem:
            found["after"] = str(problem)
        return found
    finally:
        await made.close()
        server.kill()
        await server.wait()


def main() -> None:
    """Make the other machine, and look."""
    with pytest.MonkeyPatch.context() as patch, other_machine() as there:
        patch.setattr(connection_pool, "_KEEPALIVE_SECONDS", SHORT)
        print(json.dumps(uvloop.run(watched(there))))


if __name__ == "__main__":
    main()
