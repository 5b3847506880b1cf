"""The syncer's processes, each started again when it ends, as a kubelet does.

Owns which of them runs, and why those ended that no one killed. Each process is a replica with the
name of its pod, so that audit logs tell pods apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.replicas import SyncerProcess

LOOK_SECONDS = 0.1


class SyncerSlot:
    """One pod of the syncer, with one process after the other."""

    def __init__(
        self,
        name: str,
        folder: Path,
        kubeconfig: bytes,
        *,
        mutant: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.starts = 0
        self.lost_leases = 0
        """Processes that ended because they had lost their Lease, as they must."""
        self.fell: list[str] = []
        """What was said by those that ended otherwise."""
        self._folder, self._kubeconfig = folder, kubeconfig
        self._mutant, self._env = mutant, env
        self.replica: SyncerProcess | None = None
        self.is_wanted = False

    def start(self, *, is_same_pod: bool = False) -> None:
        """Start a process and keep one running, in the same pod or in another."""
        self.is_wanted = True
        self.starts += not is_same_pod
        module: Sequence[str] = (
            ("tests.chaos.processes.broken", self._mutant) if self._mutant else ("syncer",)
        )
        self.replica = SyncerProcess(
            module,
            f"{self.name}-{self.starts}",
            self._folder,
            self._kubeconfig,
            ("--log-level", "info"),
            env={"POD_UID": self.name, **(self._env or {})},
        )

    def kill(self) -> None:
        """End the process without a word, and start none."""
        self.is_wanted = False
        if self.replica is not None:
            self.replica.process.resume()
            self.replica.process.kill()

    async def keep(self) -> None:
        """Start a process again when it has ended by itself, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.is_wanted and self.replica is not None and self.replica.process.has_ended:
                if self.replica.lost_its_lease():
                    self.lost_leases += 1
                else:
                    self.fell.append(self.replica.process.tail())
                self.start()
