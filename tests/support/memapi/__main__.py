"""Serve a super cluster and tenants until it is stopped.

Run as `python -m tests.support.memapi FOLDER --tenants N`. FOLDER has `ca.crt`, `serving.crt` and
`serving.key`. When all ports are open, `ports.json` appears in it: the super cluster's port first,
then the tenants'. Commands are read from `control.sock` there.
"""

import argparse
import asyncio
import gc
import json
import resource
import signal
import ssl
import sys
from functools import partial
from pathlib import Path

import uvloop

from tests.support.load_shapes import SHAPES
from tests.support.memapi import clusters
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.connection import ApiConnection, WatchConnections
from tests.support.memapi.control import ControlServer
from tests.support.memapi.kubelet import MemoryKubelet
from tests.support.memapi.loads import PodLoads


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("folder", type=Path)
    add("--tenants", type=int, default=4)
    add("--shape", default="bare", choices=sorted(SHAPES))
    add("--step", type=float, default=0.0, help="seconds between two steps of a super pod")
    add("--no-events", dest="events", action="store_false")
    add(
        "--echo-first",
        type=float,
        default=0.0,
        help="share of writes with a watch event before the answer",
    )
    add("--token-seconds", type=float, default=0.0, help="how long a token lives at most")
    uvloop.run(_serve(parser.parse_args()))
    return 0


async def _serve(asked: argparse.Namespace) -> None:
    gc.disable()  # a pause of some 150 ms with ten thousand pods would count as the syncer's
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    shape = SHAPES[asked.shape]
    below = clusters.super_cluster()
    MemoryKubelet(
        below,
        clusters.NODE_NAMES,
        step=asked.step,
        staged=shape.is_real,
        events=asked.events,
    )
    tenants = [clusters.tenant(number, shape) for number in range(asked.tenants)]
    for tenant in tenants:
        tenant.token_seconds = asked.token_seconds
    loads = PodLoads(tenants, shape)
    followed = WatchConnections()
    servers = [await _listen(each, followed, asked) for each in (below, *tenants)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    control = await ControlServer(below, tenants, loads).serve(asked.folder / "control.sock")
    making = asked.folder / "ports.making"
    making.write_text(json.dumps(ports))
    making.rename(asked.folder / "ports.json")
    bookmarks = asyncio.ensure_future(followed.run())
    await stop.wait()
    bookmarks.cancel()
    for each in (control, *servers):  # held until here, or they would be collected
        each.close()


async def _listen(
    cluster: MemoryCluster, followed: WatchConnections, asked: argparse.Namespace
) -> asyncio.Server:
    folder = asked.folder
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "serving.crt", folder / "serving.key")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    loop = asyncio.get_running_loop()
    make = partial(ApiConnection, MemoryApi(cluster), followed, echo_first=asked.echo_first)
    return await loop.create_server(make, "127.0.0.1", 0, ssl=context, backlog=1024)


if __name__ == "__main__":
    sys.exit(main())
