"""Process that keeps `kubectl port-forward` to a tenant's API server running.

It runs as `python -m kubectl_vc.connect.forwarder`, detached from the terminal. It ends when no
context in the kubeconfig file records its identity any longer, so `disconnect` needs no process id.
Hazard: kubectl must have the explicit context of the super cluster. The current context is the one
of the tenant, and the forwarder would connect to itself.
"""

import asyncio
import contextlib
import json
import re
import signal
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_POLL_SECONDS = 1.0
_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Pauses in seconds between restarts. The last one repeats until kubectl forwards again."""
_ANNOUNCEMENT = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ->")
_SHOWN_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwarderOrder:
    """The task of one forwarder, passed as JSON on its command line."""

    identity: str
    """Text that the kubeconfig has while the forwarder must run."""
    kubeconfig: str
    """File that has the context of the tenant."""
    command: tuple[str, ...]
    """kubectl with its connection flags, up to the ports."""
    remote_port: int = 6443
    local_port: int = 0
    """Port of loopback. 0: any free port, which then stays the same."""


def is_recorded(order: ForwarderOrder) -> bool:
    """Return whether the kubeconfig still has the identity of a forwarder."""
    try:
        return order.identity.encode() in Path(order.kubeconfig).read_bytes()
    except OSError:
        return False


async def run_forwarder(order: ForwarderOrder, pipe: int) -> int:
    """Forward until the connection is removed. Return the exit code.

    `pipe` is a file descriptor that the starting command closes when it has written the kubeconfig.
    Prints one JSON object to standard output: `{"port": N}`, or `{"error": TEXT}`.
    """
    removed = asyncio.create_task(_wait_removed(order, pipe))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, removed.cancel)
    try:
        first = await _Forward.start(order, order.local_port)
        port = await _race(first.read_port(), removed)
        if port is None:
            is_removed = removed.done()
            _report({"error": await first.stop() or "kubectl port-forward ended at once"})
            return 0 if is_removed else 1
        _report({"port": port})
        await _race(first.drain(), removed)
        await first.stop()
        pauses = list(_RETRY_SECONDS)
        while not removed.done():
            await asyncio.wait({removed}, timeout=pauses[0])
            if removed.done():
                break
            again = await _Forward.start(order, port)
            if await _race(again.read_port(), removed) is None:
                pauses = pauses[1:] or pauses
            else:
                pauses = list(_RETRY_SECONDS)
                await _race(again.drain(), removed)
            await again.stop()
    finally:
        removed.cancel()
    return 0


class _Forward:
    """One run of `kubectl port-forward`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._output = b""

    @classmethod
    async def start(cls, order: ForwarderOrder, port: int) -> Self:
        """Start kubectl for a port of loopback. 0: any."""
        ports = f"{port or ''}:{order.remote_port}"
        return cls(
            await asyncio.create_subprocess_exec(
                *order.command,
                ports,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        )

    async def read_port(self) -> int | None:
        """Return the port that kubectl announces. None if it ends before."""
        while line := await self._read_line():
            found = _ANNOUNCEMENT.search(line)
            if found:
                return int(found[1])
        return None

    async def drain(self) -> None:
        """Read the output of kubectl until it ends, or until it reports a lost pod."""
        while line := await self._read_line():
            if b"lost connection to pod" in line:
                return

    async def stop(self) -> str:
        """End kubectl, and return the last part of its output."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
        await self._process.wait()
        return " ".join(self._output.decode(errors="replace").split())

    async def _read_line(self) -> bytes:
        output = self._process.stdout
        line = await output.readline() if output is not None else b""
        self._output = (self._output + line)[-_SHOWN_BYTES:]
        return line


async def _race(work: Coroutine[Any, Any, _T], removed: "asyncio.Task[None]") -> _T | None:
    """Return the result of `work`. None if the connection is removed before."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, removed}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return None


async def _wait_removed(order: ForwarderOrder, pipe: int) -> None:
    """Return when the kubeconfig does not record the forwarder, once the other end is closed."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    loop.add_reader(pipe, closed.set)
    try:
        await closed.wait()
    finally:
        loop.remove_reader(pipe)
    while is_recorded(order):  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(_POLL_SECONDS)


def _report(result: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the forwarder that the command line describes."""
    fields = json.loads(sys.argv[1])
    order = ForwarderOrder(**{**fields, "command": tuple(fields["command"])})
    raise SystemExit(asyncio.run(run_forwarder(order, sys.stdin.fileno())))


if __name__ == "__main__":
    main()
