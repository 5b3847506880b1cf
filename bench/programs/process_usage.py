"""Use of processes: processor time, resident and proportional memory, from /proc.

Owns reads and knows no programs. An ended process has no values. Hazard: short runs need many pods.
Processor time has a resolution of 10 ms.
"""

import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 1024.0  # the kernel counts in KiB


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """MiB."""

    rss: float
    peak: float
    pss: float


def cpu_seconds(pid: int) -> float:
    """Return user and system time of all threads of a process and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(int(fields[number]) for number in (11, 12)) / _TICKS


def cpu(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the processor time of each named process."""
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def since(before: Mapping[str, float], pids: Mapping[str, int]) -> dict[str, float]:
    """Return the use of each process since `before` was read."""
    return {name: used - before.get(name, 0.0) for name, used in cpu(pids).items()}


def memory(pid: int) -> MemoryUse:
    """Return the memory of a process."""
    status = _kib(Path(f"/proc/{pid}/status"))
    rollup = _kib(Path(f"/proc/{pid}/smaps_rollup"))
    return MemoryUse(
        rss=status["VmRSS"] / _MIB, peak=status["VmHWM"] / _MIB, pss=rollup["Pss"] / _MIB
    )


def bytes_read(pid: int) -> int:
    """Return the bytes that a process has read since its start, from files and sockets alike."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "rchar":
            return int(value)
    raise OSError(f"/proc/{pid}/io has no number of bytes read")


def _kib(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB":
            found[name] = int(words[0])
    return found


def busy_seconds() -> float:
    """Return the time for which cores of this machine did anything since it started."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle, waiting, guest = fields[3], fields[4], sum(fields[8:10])
    return (sum(fields) - idle - waiting - guest) / _TICKS


def own_seconds(pids: Iterable[int]) -> float:
    """Return the processor time of this process, of its ended children, and of some that run."""
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in ours) + sum(map(cpu_seconds, pids))
