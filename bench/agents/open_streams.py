"""Streams of other tenants through an agent, all open at once, until the standard input ends.

    python -m bench.agents.open_streams --port 10550 --authority CA --each 250 FOLDER [FOLDER ...]

Each folder is a tenant's identity (`client.crt`, `client.key`). Each stream is a port-forward to
the tenant's pod `tool`, by SPDY, without data. It uses the same resources as any stream in the
agent, the kubelet and the runtime, and starts no process. With `--beyond N`, N callers of the first
tenant keep requesting one more stream, past its limit. Prints the number of open streams once all
are open, and their results at the end, as JSON. Ends with an error if another stream is refused.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import ssl
import sys
from collections import Counter
from pathlib import Path

import uvloop

HOST = "127.0.0.1"
POD = "tool"
AT_ONCE = 16
"""Handshakes under way: what is measured is that streams are open, not that they open."""
PAUSE_SECONDS = 0.05
"""Pause in seconds of a refused caller before its next request."""
RETRY_SECONDS = 1.0
"""Retry interval in seconds, from the agent's refusal. Callers with a shorter one get no answer."""
_OPEN_SECONDS = 240.0
_REQUEST = (
    f"POST /portForward/default/{POD} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n"
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    "X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
).encode()


class FullError(ConnectionError):
    """The tenant has as many streams as it may."""


def context(authority: Path, folder: Path) -> ssl.SSLContext:
    """Return what a tenant connects with."""
    found = ssl.create_default_context(cafile=str(authority))
    found.load_cert_chain(folder / "client.crt", folder / "client.key")
    return found


async def forward(port: int, tenant: ssl.SSLContext) -> asyncio.Task[None]:
    """Open one stream. The returned task ends with the stream. Raises OSError."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tenant, server_hostname=HOST)
    writer.write(_REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    if head[9:12] != b"101":
        writer.transport.abort()
        kind = FullError if head[9:12] == b"429" else ConnectionError
        raise kind(f"a stream was refused: {head.decode(errors='replace')}")

    async def hold() -> None:
        try:
            while await reader.read(4096):
                pass
        finally:
            writer.transport.abort()

    return asyncio.ensure_future(hold())


async def insist(port: int, tenant: ssl.SSLContext, seen: Counter[str]) -> None:
    """Ask for one more stream than there may be, over and over."""
    while True:
        try:
            (await forward(port, tenant)).cancel()
            seen["let_in_beyond"] += 1
        except (OSError, asyncio.IncompleteReadError):
            seen["refused_beyond"] += 1
        await asyncio.sleep(PAUSE_SECONDS)


async def held(
    port: int, tenants: list[ssl.SSLContext], each: int, beyond: int = 0
) -> dict[str, int]:
    """Keep `each` streams of each tenant open until the standard input ends.

    Returns the results.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(tenant: ssl.SSLContext) -> asyncio.Task[None]:
        while True:
            async with places:
                with contextlib.suppress(
                    FullError
                ):  # streams of an earlier run may still be closing
                    return await forward(port, tenant)
            await asyncio.sleep(RETRY_SECONDS)

    async with asyncio.timeout(_OPEN_SECONDS), asyncio.TaskGroup() as opening:
        tasks = [opening.create_task(one(tenant)) for tenant in tenants for _ in range(each)]
    streams = [task.result() for task in tasks]
    print(json.dumps({"open": sum(not stream.done() for stream in streams)}), flush=True)
    seen = Counter(let_in_beyond=0, refused_beyond=0)
    insisting = [asyncio.ensure_future(insist(port, tenants[0], seen)) for _ in range(beyond)]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    left = sum(not stream.done() for stream in streams)
    for task in (*streams, *insisting):
        task.cancel()
    await asyncio.gather(*streams, *insisting, return_exceptions=True)
    return {"made": len(streams), "open_at_the_end": left, "mean_open": left, **seen}


def main() -> int:
    """Hold the streams and print their results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--authority", type=Path, required=True)
    parser.add_argument("--each", type=int, default=250)
    parser.add_argument("--beyond", type=int, default=0)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    tenants = [context(asked.authority, folder) for folder in asked.folders]
    print(json.dumps(uvloop.run(held(asked.port, tenants, asked.each, asked.beyond))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
