"""Backups of a tenant's store as an operator takes and restores them: etcdctl and etcdutl.

Owns the two programs' command lines. A restore makes a new data folder beside the present one.
`ControlPlane.restart_on_store` moves in.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.controlplane import LocalControlPlane
from tools.testbed.artifacts import binaries

BUMP = 1_000_000_000
"""What Kubernetes' own documentation has a restored store's revision raised by."""


async def save(plane: LocalControlPlane, file: Path) -> None:
    """Take a backup of a store that runs."""
    await _run("etcdctl", f"--endpoints={plane.etcd}", "snapshot", "save", str(file))


async def restore(plane: LocalControlPlane, file: Path, store: str, *, bump: int) -> None:
    """Make a data folder `store` of the plane out of a backup. `bump` 0: revisions as they were."""
    raised = (f"--bump-revision={bump}", "--mark-compacted") if bump else ()
    peer = "http://127.0.0.1:2380"
    await _run(
        "etcdutl",
        *("snapshot", "restore", str(file), f"--data-dir={plane.folder / store}"),
        *("--name=default", f"--initial-cluster=default={peer}"),
        f"--initial-advertise-peer-urls={peer}",
        *raised,
    )


async def _run(program: str, *words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        str(binaries.path(program)),
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    assert not process.returncode, f"{program}: {told.decode(errors='replace')}"
