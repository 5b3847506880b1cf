"""The measured syncer: ours by default, any other by its command.

Owns its process. The command may use `{python}` (as the images have it), `{kubeconfig}` (of the
super cluster), `{tenants}` (folder with each tenant administrator's kubeconfig), `{port}` and
`{folder}`. A command that only starts the syncer writes the process ID to measure into the file of
`--pid`. Hazard: every process that the command starts must end with the command. Otherwise it
disturbs later runs.
"""

import asyncio
import json
import os
import shlex
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.programs import image_python
from bench.programs.super_cluster import ROOT
from tests.support.processes import ProgramProcess, free_port

OURS = "{python} -m syncer --kubeconfig {kubeconfig} --port {port}"
INSIDE = (
    "{python} -m bench.programs.instrumented_syncer {folder}/inside.json"
    " --kubeconfig {kubeconfig} --port {port}"
)
"""Our syncer with a ticker and a sampler in its process."""


class SyncerHost(Protocol):
    """The clusters and folders that a syncer runs with."""

    folder: Path

    def syncer_kubeconfig(self) -> Path:
        """Write the kubeconfig of the super cluster for the syncer. Returns its path."""
        ...


@dataclass(kw_only=True)
class RunningSyncer:
    """A running syncer."""

    process: ProgramProcess
    pid: int
    port: int
    devices: Path | None = None
    """Path that the devices in its process write to. None without devices."""

    async def counters(self) -> dict[str, float]:
        """Return its counters from /metrics. Empty without any."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return {}
        writer.write(b"GET /metrics HTTP/1.0\r\nHost: syncer\r\n\r\n")
        text = (await reader.read()).decode(errors="replace")
        writer.close()
        return _counters(text)

    def begin_devices(self) -> None:
        """Reset the devices."""
        if self.devices is not None:
            os.kill(self.pid, signal.SIGUSR1)

    async def seen_inside(self) -> dict[str, Any]:
        """Return the results of the devices. Empty without any."""
        if self.devices is None:
            return {}
        self.devices.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        for _ in range(200):
            await asyncio.sleep(0.05)
            if self.devices.exists():
                return {"inside": json.loads(self.devices.read_text())}
        raise SystemExit("the devices in the syncer's process did not answer")


def _counters(text: str) -> dict[str, float]:
    """Parse the counters, which only grow, from Prometheus' text."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        family = name.partition("{")[0]
        if family.endswith(("_total", "_sum", "_count")) and not line.startswith("#"):
            found[name] = float(value)
    return found


def grown(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """Return the growth of each changed counter per pod."""
    each = {key: (value - before.get(key, 0.0)) / count for key, value in after.items()}
    return {key: value for key, value in each.items() if value}


@dataclass(frozen=True, kw_only=True)
class SyncerLauncher:
    """The command of a syncer, and its execution."""

    command: str = OURS
    pid_file: Path | None = None
    pod_uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    """UID of its pod. A restarted syncer is the container of the same pod."""

    @asynccontextmanager
    async def running(self, stage: SyncerHost) -> AsyncIterator[RunningSyncer]:
        """Run it for the duration of a block."""
        found = await self.start(stage)
        try:
            yield found
        finally:
            await found.process.stop()

    async def start(self, stage: SyncerHost) -> RunningSyncer:
        """Start it. The caller must stop its process."""
        port = free_port()
        words = shlex.split(
            self.command.format(
                python=shlex.join(image_python.python()),
                kubeconfig=stage.syncer_kubeconfig(),
                tenants=stage.folder,
                folder=stage.folder,
                port=port,
            )
        )
        # A path of another checkout, which an editable installation may name, must not win.
        env = [f"PYTHONPATH={ROOT}", f"POD_UID={self.pod_uid}"]
        process = ProgramProcess(["env", *env, *words], stage.folder / "syncer.log")
        pid = await self._pid(process)
        devices = stage.folder / "inside.json" if self.command == INSIDE else None
        return RunningSyncer(process=process, pid=pid, port=port, devices=devices)

    async def _pid(self, process: ProgramProcess) -> int:
        if self.pid_file is None:
            return process.pid
        for _ in range(300):
            if self.pid_file.exists() and self.pid_file.read_text().strip():
                return int(self.pid_file.read_text())
            if process.has_ended:
                break
            await asyncio.sleep(0.1)
        raise SystemExit(f"{self.pid_file} was not written. {process.tail()}")
