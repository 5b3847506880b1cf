"""Much at once by way of the agent: a copy of a gibibyte, fifty connections to one port."""

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import objects
from tests.node.agent.conftest import LEGS
from tests.node.agent.rig import LISTS, Rig
from tests.node.kubectl import until
from tests.support.forwards import forwarded
from tests.testbed import images

pytestmark = pytest.mark.node

COPIED_BYTES = 1024**3
PIECE_BYTES = 1024**2
LATE_BYTES, LATE_SECONDS = 6 * 1024 * 1024, 17.0
"""What sockets and buffers on the way hold, and time for three pings."""
HELD = [leg for leg in LEGS if leg[1] == "true"]
"""A kubectl that speaks SPDY has an API server that closes under its pings as soon as the kubelet
has ended: it loses bytes beside a kubelet without an agent as well."""
LARGE = "/tmp/large"  # noqa: S108 - in a container
CONNECTIONS = 50
SENT_BYTES = 256 * 1024
"""By each connection: more than the buffers on the way have room for, in all."""
ECHO = """
import asyncio

async def echo(reader, writer):
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()

async def main():
    async with await asyncio.start_server(echo, "0.0.0.0", 8080) as server:
        print("open", flush=True)
        await server.serve_forever()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def echo(rig: Rig) -> Iterator[str]:
    """A pod that sends back what it is sent."""
    made = objects.pod("echo", "")
    made["spec"]["containers"][0] |= {"image": images.PYTHON, "command": ["python3", "-c", ECHO]}
    rig.place(rig.tenant, made)
    rig.wait(rig.tenant, "echo")
    rig.tenant.kubectl.run("logs", "echo", "-f", "--limit-bytes=5")  # ends with "open"
    yield "echo"
    rig.super_kubectl.run("delete", "pod", "echo", "-n", rig.tenant.super_namespace())


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_gibibyte_is_copied_both_ways(user, pods, tmp_path):
    """REL-87: `kubectl cp`, by the checksums of the source, in the pod and of what comes back."""
    source, back = tmp_path / "source", tmp_path / "back"
    digest = written(source)
    try:
        user.run("cp", str(source), f"tool:{LARGE}", timeout=400)
        there = user.run("exec", "tool", "--", "sha256sum", LARGE, timeout=120)
        assert there.split()[0] == digest
        user.run("cp", f"tool:{LARGE}", str(back), timeout=400)
        with back.open("rb") as copy:
            assert hashlib.file_digest(copy, "sha256").hexdigest() == digest
    finally:
        user.run("exec", "tool", "--", "rm", "-f", LARGE)
        for file in (source, back):
            file.unlink(missing_ok=True)


def written(path: Path) -> str:
    """Fill a file with what nobody can compress; return its SHA-256."""
    found = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(COPIED_BYTES // PIECE_BYTES):
            piece = os.urandom(PIECE_BYTES)
            found.update(piece)
            file.write(piece)
    return found.hexdigest()


@pytest.mark.thorough
@pytest.mark.parametrize("leg", HELD, indirect=True, ids=str)
def test_who_reads_late_gets_all_of_it(rig, user, leg, pods):
    """REL-87: what is under way when the command ends arrives, within the deadline of such streams.

    kubectl pings every five seconds; who closes a socket under that loses what it still holds. The
    pings come as far as the agent where the API server relays WebSockets as they are.
    """
    known = len(rig.audit())
    script = f"head -c {LATE_BYTES} /dev/zero # late"
    with user.running("exec", "tool", "--", "sh", "-c", script) as process:
        time.sleep(LATE_SECONDS)
        assert "# late" not in user.run("exec", "tool", "--", "sh", "-c", LISTS), "it has ended"
        until(lambda: len(rig.audit()) > known, "the list is written down")
        assert len(rig.audit()) == known + 1, "the stream goes on"
        out, err = process.communicate(timeout=60)
    assert (len(out), err) == (LATE_BYTES, "")
    until(lambda: len(rig.audit()) == known + 2, "the stream is written down")
    assert rig.audit()[-1]["result"] == "complete"


def test_fifty_connections_to_a_port_keep_their_bytes_apart(user, leg, echo):
    """All are open before the first one sends, and each gets back what it sent itself."""
    sent = [os.urandom(SENT_BYTES) for _ in range(CONNECTIONS)]
    with forwarded(user, echo, 8080) as port:
        assert asyncio.run(exchanged(port, sent)) == sent


async def exchanged(port: int, sent: list[bytes]) -> list[bytes]:
    """Send each content over a connection of its own, all at once; return what came back."""
    together = asyncio.Barrier(len(sent))
    async with asyncio.timeout(60):
        return await asyncio.gather(*(_exchanged(port, content, together) for content in sent))


async def _exchanged(port: int, content: bytes, together: asyncio.Barrier) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(content[:16])
        back = await reader.readexactly(16)
        await together.wait()
        writer.write(content[16:])
        return back + await reader.readexactly(len(content) - 16)
    finally:
        writer.close()
