"""Control groups of a cluster: one tree per cluster, in each v1 controller or in v2.

`<tree>/system` is the group of the cluster's own programs. `<tree>/node-N` is the root of one
kubelet.

Hazard: two kubelets must never have the same root. A kubelet destroys unknown pod groups in its
root. A cpuset group (v1) without CPUs and memory nodes accepts no process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tools.testbed.errors import TestbedError

ROOT = Path("/sys/fs/cgroup")
PREFIX = "virtual-cluster-"
_V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


def is_v2() -> bool:
    """Return whether the machine has the unified hierarchy only."""
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """Return the mounted hierarchies: one with v2, one per controller with v1."""
    if is_v2():
        return [ROOT]
    lines = Path("/proc/self/mounts").read_text().splitlines()
    mounts = [line.split() for line in lines]
    return [Path(fields[1]) for fields in mounts if fields[2] in ("cgroup", "cgroup2")]


def make(group: str) -> None:
    """Create a group and its parents in every hierarchy."""
    for hierarchy in hierarchies():
        current = hierarchy
        for part in group.split("/"):
            if is_v2():
                _delegate(current)
            current /= part
            current.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                file = current / name
                if not is_v2() and file.exists() and not file.read_text().strip():
                    file.write_text((current.parent / name).read_text())


def join(group: str) -> None:
    """Move the calling process into a group."""
    for hierarchy in hierarchies():
        (hierarchy / group / "cgroup.procs").write_text("0")


def trees() -> list[str]:
    """Return the names of all trees of testbed clusters, from all hierarchies."""
    found = {path.name for hierarchy in hierarchies() for path in hierarchy.glob(f"{PREFIX}*")}
    return sorted(found)


def processes(tree: str) -> set[int]:
    """Return the processes of a tree."""
    pids: set[int] = set()
    for hierarchy in hierarchies():
        for file in (hierarchy / tree).glob("**/cgroup.procs"):
            with contextlib.suppress(OSError):  # the group was removed meanwhile
                pids.update(int(line) for line in file.read_text().split())
    pids.discard(0)
    return pids


def remove(tree: str, patience_seconds: float = 10) -> None:
    """Remove a tree whose processes have been killed."""
    deadline = time.monotonic() + patience_seconds
    while left := [path for h in hierarchies() if (path := h / tree).exists()]:
        for path in left:
            groups = [group for group in path.glob("**/") if group.is_dir()]
            for group in sorted(groups, key=lambda group: -len(group.parts)):
                with contextlib.suppress(OSError):  # busy while its last process is dying
                    group.rmdir()
        if time.monotonic() > deadline:
            raise TestbedError(
                f"the cgroup {left[0]} cannot be removed: processes {sorted(processes(tree))} are"
                " still in it. End them and run `down` again"
            )
        time.sleep(0.02)


def _delegate(group: Path) -> None:
    """Enable a v2 group's own controllers for its children."""
    available = (group / "cgroup.controllers").read_text().split()
    enabled = (group / "cgroup.subtree_control").read_text().split()
    for name in _V2_CONTROLLERS:
        if name in available and name not in enabled:
            (group / "cgroup.subtree_control").write_text(f"+{name}")


def kill(tree: str, patience_seconds: float = 10) -> None:
    """Kill all processes of a tree."""
    deadline = time.monotonic() + patience_seconds
    while pids := processes(tree):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TestbedError(f"the processes {sorted(pids)} of {tree} do not end after SIGKILL")
        time.sleep(0.02)
