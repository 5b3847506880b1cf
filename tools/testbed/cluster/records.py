"""Records of clusters, written before any change so that `down` can undo it.

Owns `clusters/<name>/cluster.json`: slot, nodes, minor, kubeconfig, and whether it is up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.testbed import cache
from tools.testbed.cluster.components import clusters_folder
from tools.testbed.machine import cgroups

NAME = "cluster.json"

StateRecord = dict[str, Any]


def read(name: str) -> StateRecord | None:
    """Return the record of a cluster. None if it is missing or was not finished."""
    try:
        record: StateRecord = json.loads(_file(name).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return record


def write(name: str, record: StateRecord) -> None:
    """Write the record completely or not at all."""
    cache.write_atomic(_file(name), json.dumps(record))


def names() -> list[str]:
    """Return the existing clusters, complete or not, found by their folders and cgroups."""
    folders = {path.name for path in clusters_folder().iterdir() if path.is_dir()}
    return sorted(folders | {tree.removeprefix(cgroups.PREFIX) for tree in cgroups.trees()})


def every() -> list[StateRecord]:
    """Return the records of all clusters."""
    return [record for name in names() if (record := read(name)) is not None]


def _file(name: str) -> Path:
    return clusters_folder() / name / NAME
