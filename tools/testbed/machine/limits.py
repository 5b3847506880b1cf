"""Kernel limits of the whole machine that a cluster would reach, raised while one is up.

Hazard: a limit must never be lowered, and the old values are recorded before a change. The limits
are the machine's, not the cluster's, so they are restored when the last cluster is removed.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tools.testbed import cache

# An API server watches a dozen files. With the default of 128 the tenth tenant's programs fail with
# "too many open files".
WANTED = {
    "fs/inotify/max_user_instances": 8192,
    "fs/inotify/max_user_watches": 524288,
}


def _record() -> Path:
    return cache.root() / "limits.json"


def lift() -> None:
    """Raise the limits that are too low, and record the old values."""
    with cache.locked("limits"):
        found = json.loads(_record().read_text()) if _record().exists() else {}
        for name, wanted in WANTED.items():
            value = int(Path("/proc/sys", name).read_text())
            if value < wanted:
                found.setdefault(name, value)
        cache.write_atomic(_record(), json.dumps(found))
        for name in found:
            Path("/proc/sys", name).write_text(str(WANTED[name]))


def restore() -> None:
    """Restore the values that `lift` recorded."""
    with cache.locked("limits"), contextlib.suppress(FileNotFoundError):
        for name, value in json.loads(_record().read_text()).items():
            Path("/proc/sys", name).write_text(str(value))
        _record().unlink()
