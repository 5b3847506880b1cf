"""Decision which tenant is disconnected when the memory of the process runs out.

Pure, except for the readers of `/proc` and of the cgroup. Must not know connections.

Hazard: the process must disconnect a tenant before the kernel ends it. The standby would read the
same tenants and be ended as well.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SHED_SHARE = 0.8
"""Share of the memory limit at which the largest tenant is disconnected."""
URGENT_SHARE = 0.9
"""Share at which the next tenant is disconnected without a pause."""
SETTLE_SECONDS = 10.0
"""Time in seconds for the memory of a disconnected tenant to be returned."""
MIN_SHED_BYTES = 4 * 1024 * 1024
"""Bytes below which the largest tenant is not the cause, so that it stays connected."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = 4096


class MemoryUse(NamedTuple):
    """Memory of the process."""

    resident: int
    """Bytes."""
    limit: int | None
    """Bytes at which the kernel ends the process. None: no limit."""


def choose_tenant(
    use: MemoryUse, tenants: Mapping[str, int], *, since_last_shed: float
) -> str | None:
    """Return the UID of the tenant to disconnect, or None.

    `tenants` are the bytes by tenant. `since_last_shed` are the seconds since the last decision.
    """
    if use.limit is None or use.resident <= use.limit * SHED_SHARE or not tenants:
        return None
    if since_last_shed < SETTLE_SECONDS and use.resident <= use.limit * URGENT_SHARE:
        return None
    largest = max(sorted(tenants), key=tenants.__getitem__)
    return largest if tenants[largest] >= MIN_SHED_BYTES else None


def read_cgroup_limit(path: Path = _CGROUP_LIMIT) -> int | None:
    """Return the memory limit of the cgroup (version 2) in bytes, or None without a limit."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def read_resident_bytes(path: Path = _STATM) -> int:
    """Return the resident memory of the process in bytes. 0 where the kernel does not report it."""
    try:
        return int(path.read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0
