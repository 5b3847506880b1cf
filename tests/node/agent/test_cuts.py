"""Commands whose caller vanishes at any moment, and what is left of them on the node: nothing."""

import asyncio
import os
import random
import socket
import ssl
import struct
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from kubernetes.client import Configuration

from tests.node.agent.conftest import SPDY, WEBSOCKET, take_leg
from tests.node.agent.rig import AgentRig
from tests.support import websockets
from tests.support.kubectl import until
from vnagent.client.upstream_server import WARM_SECONDS

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

CUTS = int(os.environ.get("CUTS", "200"))
"""Half of them on each leg. 5,000 would take about four minutes."""
AT_ONCE, MOST_SECONDS = 16, 1.0
LEFT_SECONDS = 120
SEED, MARK = 20261125, "cut-number-"
HELLO = b"\x82\x87\0\0\0\0\0hello\n"
"""A frame from a client: binary, seven bytes under a mask of zeros, the first one says input."""
GONE_AT_ONCE = struct.pack("ii", 1, 0)
"""A socket that is closed with this tells its peer by a reset."""


class CuttingCaller:
    """Begins commands at a tenant's API server and leaves, by chance. No kubectl, as it is slow."""

    def __init__(self, to: Configuration) -> None:
        place = urlsplit(to.host)
        self._host, self._port = str(place.hostname), int(place.port or 443)
        self._context = ssl.create_default_context(cafile=to.ssl_ca_cert)
        self._context.load_cert_chain(to.cert_file, to.key_file)
        self._chance = random.Random(SEED)  # noqa: S311 - not a secret
        self._places = asyncio.Semaphore(AT_ONCE)

    async def cut(self, number: int) -> None:
        """Begin a command that ends with its input, talk to it, and vanish at some moment."""
        moment, has_reset = self._chance.uniform(0, MOST_SECONDS), self._chance.random() < 0.5
        async with self._places:
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._context
            )
            try:
                async with asyncio.timeout(moment):
                    writer.write(_request(number))
                    writer.write(HELLO if b" 101 " in await reader.readline() else b"")
                    while await reader.read(65536):
                        pass
            except TimeoutError:
                pass
            finally:
                if has_reset:
                    plain = writer.get_extra_info("socket")
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GONE_AT_ONCE)
                writer.transport.abort()


def _request(number: int) -> bytes:
    options = [("command", word) for word in ("sh", "-c", f"cat; : {MARK}{number}")]
    options += [("container", "main")]
    options += [(key, "true") for key in ("stdin", "stdout", "stderr")]
    return (
        f"GET /api/v1/namespaces/default/pods/tool/exec?{urlencode(options)} HTTP/1.1\r\n"
        "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: {websockets.V5}\r\n\r\n"
    ).encode()


async def _cut_all(to: Configuration, numbers: range) -> None:
    cutter = CuttingCaller(to)
    await asyncio.gather(*(cutter.cut(number) for number in numbers))


def processes() -> list[str]:
    """Return the cut commands that run on the node, and what the runtime has that starts them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if MARK in line or line.split(" ")[0].endswith("runc"):
            found.append(line)
    return found


def test_streams_that_are_cut_leave_nothing(rig: AgentRig, pods, monkeypatch):
    """REL-86: at any moment: no process on the node, no socket and no task in the agent."""
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    time.sleep(WARM_SECONDS + 5)  # connections that it makes ahead are dropped
    open_before, tasks_before, known = rig.descriptors(), rig.tasks(), len(rig.audit())
    to = websockets.of_api_server(rig.tenant.kubectl.kubeconfig)
    began = time.monotonic()
    for leg, numbers in ((WEBSOCKET, range(CUTS // 2)), (SPDY, range(CUTS // 2, CUTS))):
        take_leg(rig, (leg, "true"), monkeypatch)
        asyncio.run(_cut_all(to, numbers))
    cutting = time.monotonic() - began

    def is_clean() -> bool:
        tasks = rig.tasks()
        left = {
            "streams": rig.metric("vc_agent_open_streams"),
            "processes": processes(),
            "descriptors": max(0, rig.descriptors() - open_before),
            "tasks": tasks if sum(tasks.values()) > sum(tasks_before.values()) else {},
        }
        assert not {what: found for what, found in left.items() if found}
        return True

    until(is_clean, "nothing is left", LEFT_SECONDS)
    lasted = time.monotonic() - began - cutting
    reached = [line for line in rig.audit()[known:] if line["verb"] == "exec"]
    spoken = Counter(line["protocol"] for line in reached)
    ends = Counter(line["result"] for line in reached)
    print(
        f"{CUTS:,} commands cut within {cutting:.0f} s, {len(reached):,} of them known to the"
        f" agent ({dict(spoken)}, {dict(ends)}); nothing was left {lasted:.0f} s after the last"
    )
    assert min(spoken["websocket"], spoken["SPDY/3.1"]) > CUTS // 8, "too few have come so far"
    assert "kubelet_lost" not in ends, "it was the caller who left"
    assert rig.tenant.kubectl.run("exec", "tool", "--", "echo", "again") == "again\n"
