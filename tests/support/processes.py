"""Start and stop real programs for a test, and print a program's log when it fails.

Hazard: the kernel ends a child when the *thread* that started it ends, so programs are started from
the test's main thread only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PORTS = range(10_000, 30_000)
"""Lower than the ports that kernels assign to sockets without one and to outgoing connections."""


def free_port() -> int:
    """Return a port that is free now, and that no socket gets without asking for it.

    Tests run beside each other, and a program needs time until it listens.
    """
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"100 ports of {PORTS} are all taken")


class ProgramProcess:
    """One program, its log, and its end."""

    def __init__(
        self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start the program with `env` on top of ours. It ends with this process in any case."""
        self.name = Path(argv[0]).name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """Number of the process. setpriv becomes the program, so it is the program's own."""
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        """Return whether the program has ended."""
        return self._popen.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal, and None while the program runs."""
        return self._popen.poll()

    def tail(self) -> str:
        """Return the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return f"{self.name} ({self.log}):\n  " + "\n  ".join(lines)

    def pause(self) -> None:
        """Freeze the program: connections stay open and nothing answers."""
        self._popen.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self._popen.pid}/task")
        while any(_state(thread) not in "TZ" for thread in threads.iterdir()):
            time.sleep(0.001)  # the kernel stops one thread after the other

    def resume(self) -> None:
        """Let a frozen program go on."""
        self._popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the program without a word."""
        self._popen.kill()
        self._popen.wait()

    async def stop(self, *, patience: float = 10.0) -> None:
        """Ask the program to end, and make it end when it does not."""
        self._popen.send_signal(signal.SIGCONT)
        self._popen.terminate()
        loop = asyncio.get_running_loop()
        ends = loop.time() + patience
        while self._popen.poll() is None:
            if loop.time() > ends:
                self._popen.kill()
            await asyncio.sleep(0.02)


def _state(thread: Path) -> str:
    """Return the kernel's letter for what a thread is doing."""
    try:
        return (thread / "stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "Z"
