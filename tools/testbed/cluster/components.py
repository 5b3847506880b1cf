"""Component of a cluster: a program with its arguments and its space, and the cluster's folders.

Hazard: a cluster's folder must stay at its depth in the cache folder. Otherwise the supervisor does
not find the cache folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.testbed import cache
from tools.testbed.cluster.topology import Topology


@dataclass(frozen=True, slots=True)
class ClusterProgram:
    """A program of a cluster, as the supervisor starts it."""

    name: str
    space: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterFolders:
    """The folders of one cluster, all inside `root`."""

    root: Path

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def audit_log(self) -> Path:
        return self.root / "audit" / "audit.log"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    def space(self, name: str) -> Path:
        return self.root / name

    def config(self, name: str) -> Path:
        return self.root / "config" / name


def places(topology: Topology) -> ClusterFolders:
    """Where a cluster's files are."""
    return ClusterFolders(clusters_folder() / topology.name)


def clusters_folder() -> Path:
    """Return the folder of all clusters. The supervisor relies on its depth in the cache folder."""
    return cache.folder("clusters")


def flags(values: Mapping[str, object]) -> list[str]:
    """Return command line flags in the spelling of Kubernetes' programs."""
    return [f"--{name}={value}" for name, value in values.items()]
