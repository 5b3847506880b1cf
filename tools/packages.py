"""Packages of the repository, their modules, and the number of modules in each folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = (
    *("clusterversions", "kubectl_vc", "kubeio", "syncer", "telemetry", "tenancy", "vcmanager"),
    "vnagent",
)
PROGRAMS = ("bench", "charts", "tools")
FOLDER_MODULES = 15


def modules(packages: Iterable[str], root: Path = ROOT) -> Iterator[Path]:
    """Yield the modules of packages relative to the root, without `__init__.py`."""
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            if path.name != "__init__.py":
                yield path.relative_to(root)


def folder_sizes(paths: Iterable[Path]) -> dict[str, int]:
    """Return the number of modules in each folder, by name of the folder."""
    return dict(sorted(Counter(str(path.parent) for path in paths).items()))


def crowded(sizes: dict[str, int]) -> set[str]:
    """Return the folders with more than 15 modules."""
    return {folder for folder, count in sizes.items() if count > FOLDER_MODULES}
