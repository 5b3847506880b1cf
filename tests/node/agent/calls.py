"""Calls that work the same whichever way an agent goes to a node's pods, each seen by its effect.

What they need are pods that they talk to: `talker`, `echo`, and one with a shell.
"""

import asyncio
import hashlib
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.node.agent.rig import SLEEPER
from tests.support import node_objects
from tests.support.forwards import forwarded
from tests.support.kubectl import KubectlRunner
from tools.testbed.artifacts import images

COPIED_BYTES = 1024**3
PIECE_BYTES = 1024**2
LARGE = "/tmp/large"  # noqa: S108 - in a container
CONNECTIONS = 50
SENT_BYTES = 256 * 1024
"""By each connection: more than the buffers on the way have room for, in all."""
TALKER = """
n=$(cat /state/starts 2>/dev/null || echo 0); echo $((n + 1)) > /state/starts
trap 'exit 0' TERM
for i in 1 2 3 4 5; do echo "start $n line $i"; done
echo "start $n trouble" >&2
[ "$n" = 0 ] && exit 3
while :; do sleep 0.2; done
"""
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


def talker(name: str) -> dict[str, Any]:
    """Return a pod whose container `main` says six lines, ends once and says them again."""
    made = node_objects.pod(name, TALKER, volumes=[{"name": "state", "emptyDir": {}}])
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    made["spec"]["containers"].append(node_objects.container("echo beside; " + SLEEPER, "side"))
    return made


def echo(name: str) -> dict[str, Any]:
    """Return a pod that sends back what port 8080 is sent, and says `open` once it does."""
    made = node_objects.pod(name, "")
    made["spec"]["containers"][0] |= {"image": images.PYTHON, "command": ["python3", "-c", ECHO]}
    return made


def log_options(user: KubectlRunner, pod: str) -> list[str]:
    """Look at each option of logs of a talker that has started twice. Return its whole log."""

    def logs(*options: str) -> list[str]:
        return user.run("logs", pod, "-c", "main", *options).splitlines()

    everything = logs()
    said = [*(f"start 1 line {number}" for number in range(1, 6)), "start 1 trouble"]
    assert sorted(everything) == sorted(said)
    assert logs("--tail=2") == everything[-2:]
    assert logs("--tail=0") == []
    assert "start 0 line 1" in logs("--previous")
    assert user.run("logs", pod, "-c", "main", "--limit-bytes=7") == "\n".join(everything)[:7]
    stamped = logs("--timestamps")
    assert [line.split(" ", 1)[1] for line in stamped] == everything
    stamps = [line.split(" ", 1)[0] for line in stamped]
    later = max(stamps)[:19]
    moment = datetime.fromisoformat(later).replace(tzinfo=UTC) + timedelta(seconds=1)
    assert logs(f"--since-time={moment.isoformat()}") == []
    assert logs(f"--since-time={(moment - timedelta(hours=1)).isoformat()}") == everything
    assert logs("--since=1h") == everything
    time.sleep(1.1)
    assert logs("--since=1s") == []
    return everything


def resizing(command: str) -> str:
    """Return a script that runs a command in a terminal that changes between two sizes."""
    size = "stty -F /dev/tty cols 111 rows"
    return (
        f"(while :; do {size} 33; sleep 0.5; {size} 44; sleep 0.5; done) & resizing=$!;"
        f" {command}; code=$?; kill $resizing; exit $code"
    )


def terminal(user: KubectlRunner, pod: str) -> None:
    """Look for the size of the caller's terminal in a command's, and for each later one."""
    # A size comes on a stream of its own, and so maybe after the command has begun: the caller's
    # terminal changes between two sizes until the command has seen both.
    command = "tty; for rows in 33 44; do until stty size | grep -w $rows; do sleep 0.1; done; done"
    done = user.terminal(
        resizing(f"timeout --foreground 20 kubectl exec -it {pod} -- sh -c '{command}; exit 7'")
    )
    assert "/dev/pts/" in done.out
    assert "33 111" in done.out
    assert "44 111" in done.out
    assert done.code == 7


def copies_of_a_gibibyte(user: KubectlRunner, pod: str, folder: Path) -> None:
    """Copy a file there and back. Compare the checksums of the source, there, and of the copy."""
    source, back = folder / "source", folder / "back"
    digest = _written(source)
    try:
        user.run("cp", str(source), f"{pod}:{LARGE}", timeout=400)
        there = user.run("exec", pod, "--", "sha256sum", LARGE, timeout=120)
        assert there.split()[0] == digest
        user.run("cp", f"{pod}:{LARGE}", str(back), timeout=400)
        with back.open("rb") as copy:
            assert hashlib.file_digest(copy, "sha256").hexdigest() == digest
    finally:
        user.run("exec", pod, "--", "rm", "-f", LARGE)
        for file in (source, back):
            file.unlink(missing_ok=True)


def _written(path: Path) -> str:
    """Fill a file with what no one can compress. Return its SHA-256."""
    found = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(COPIED_BYTES // PIECE_BYTES):
            piece = os.urandom(PIECE_BYTES)
            found.update(piece)
            file.write(piece)
    return found.hexdigest()


def fifty_connections(user: KubectlRunner, pod: str) -> None:
    """Have all open to an echo before the first sends. Each gets back what it sent itself."""
    sent = [os.urandom(SENT_BYTES) for _ in range(CONNECTIONS)]
    with forwarded(user, pod, 8080) as port:
        assert asyncio.run(_exchanged(port, sent)) == sent


async def _exchanged(port: int, sent: list[bytes]) -> list[bytes]:
    """Send each content over a connection of its own, all at once. Return what came back."""
    together = asyncio.Barrier(len(sent))
    async with asyncio.timeout(60):
        return await asyncio.gather(*(_exchange(port, content, together) for content in sent))


async def _exchange(port: int, content: bytes, together: asyncio.Barrier) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(content[:16])
        back = await reader.readexactly(16)
        await together.wait()
        writer.write(content[16:])
        return back + await reader.readexactly(len(content) - 16)
    finally:
        writer.close()
