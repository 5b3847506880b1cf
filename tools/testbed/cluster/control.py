"""Client of a cluster's supervisor, and the end of the supervisor.

Hazard: a recorded supervisor must be identified by process ID and start time. The kernel reuses
process IDs, so a process with the ID alone may be another program.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tools.testbed.cluster import supervisor
from tools.testbed.cluster.components import ClusterProgram
from tools.testbed.errors import TestbedError

_SCRIPT = Path(supervisor.__file__).resolve()


class SupervisorClient:
    """One cluster's supervisor, accessed from the host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def launch(self, cgroup: str) -> None:
        """Start the supervisor and wait until it answers."""
        log = self._folder / "logs" / "supervisor.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            result = subprocess.run(
                [sys.executable, str(_SCRIPT), str(self._folder), cgroup],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
        if result.returncode != 0:
            raise TestbedError(f"the supervisor did not start. See {log}")
        deadline = time.monotonic() + 10
        while not (self._folder / supervisor.SOCKET).exists() or not self._answers():
            if time.monotonic() > deadline or not self.alive():
                raise TestbedError(f"the supervisor does not answer. See {log}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            self.state()
        except OSError:
            return False
        return True

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and return the reply."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(supervisor.short(self._folder / supervisor.SOCKET))
            with connection.makefile("rwb") as stream:
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                reply: dict[str, Any] = json.loads(stream.readline())
        if "error" in reply:
            raise TestbedError(f"the supervisor refused {request['op']}: {reply['error']}")
        return reply

    def make_space(self, name: str, hostname: str) -> int:
        """Create a space. Returns the process that holds it, by the host's process ID."""
        inner = int(self.ask(op="space", name=name, hostname=hostname)["pid"])
        ready = self._folder / f"{name}.ready"
        deadline = time.monotonic() + 10
        while not ready.exists():
            if time.monotonic() > deadline:
                raise TestbedError(f"the space {name} could not be made. See logs/supervisor.log")
            time.sleep(0.005)
        return self.host_pid(inner)

    def start(self, component: ClusterProgram) -> None:
        """Start a component. Its output is written to logs/<name>.log."""
        log = self._folder / "logs" / f"{component.name.replace('/', '-')}.log"
        self.ask(
            op="start",
            name=component.name,
            space=component.space,
            argv=list(component.argv),
            env=dict(component.env),
            log=str(log),
        )

    def stop(self, name: str, grace_seconds: float) -> None:
        self.ask(op="stop", name=name, grace=grace_seconds)

    def signal(self, name: str, number: int) -> None:
        self.ask(op="signal", name=name, signal=number)

    def state(self) -> dict[str, Any]:
        return self.ask(op="state")

    def host_pid(self, inner: int) -> int:
        """Return the host's ID of a process of the cluster."""
        first = self.pid()
        space = Path(f"/proc/{first}/ns/pid").readlink()
        for pid in descendants(first):
            with contextlib.suppress(OSError):
                numbers = _numbers(pid)
                if numbers[-1] == inner and Path(f"/proc/{pid}/ns/pid").readlink() == space:
                    return pid
        raise TestbedError(f"the cluster's process {inner} ended. See logs/supervisor.log")

    def pid(self) -> int:
        """The supervisor's number on the host."""
        with contextlib.suppress(OSError, ValueError):
            record = json.loads((self._folder / supervisor.RECORD).read_text())
            if supervisor.started(record["pid"]) == record["started"]:
                return int(record["pid"])
        raise TestbedError(f"the cluster {self._folder.name} is not running. Run `up` first")

    def alive(self) -> bool:
        """Return whether the recorded supervisor still runs."""
        try:
            pid = self.pid()
        except TestbedError:
            return False
        return not _is_zombie(pid)

    def kill(self) -> None:
        """Kill every process of the cluster, found by the record and by a search."""
        for pid in supervisors(self._folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while left := supervisors(self._folder):
            if time.monotonic() > deadline:
                raise TestbedError(f"the processes {sorted(left)} do not end after SIGKILL")
            time.sleep(0.01)


def supervisors(folder: Path) -> set[int]:
    """Return the living supervisors of a cluster, recorded or not."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:3] == [os.fsencode(_SCRIPT), os.fsencode(folder)]:
                found.add(int(entry.name))
    return found


def descendants(first: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [first]
    for pid in found:
        found += children.get(pid, [])
    return found


def _numbers(pid: int) -> list[int]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return [int(word) for word in line.split()[1:]]
    return []


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
