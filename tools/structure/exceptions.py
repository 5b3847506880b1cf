"""Crowded folders and duplicate class names that are allowed today. The lists may only shrink.

`tests/contract/structure.yaml` has a reason for each. A new entry has an empty reason, and the test
fails until a person writes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools import packages
from tools.structure import classes

FILE = packages.ROOT / "tests/contract/structure.yaml"
_HEAD = """\
# Exceptions of test_structure.py: crowded folders with their number of modules, and class names
# with the number of classes that have them. A higher number fails. A lower one must be recorded.
# `python -m tools.structure --record` writes the numbers and keeps the reasons.
"""


@dataclass(frozen=True, slots=True)
class Exemption:
    """The highest number that is allowed, and why."""

    count: int
    reason: str


Section = Mapping[str, Exemption]


def counted() -> dict[str, dict[str, int]]:
    """Return the crowded folders and the duplicate class names, with their numbers."""
    everywhere = (*packages.PRODUCT, *packages.PROGRAMS)
    sizes = packages.folder_sizes(packages.modules(everywhere))
    names = classes.duplicates(packages.modules(packages.PRODUCT))
    return {
        "folders": {folder: sizes[folder] for folder in sorted(packages.crowded(sizes))},
        "classes": {name: len(files) for name, files in names.items()},
    }


def recorded(file: Path | None = None) -> dict[str, dict[str, Exemption]]:
    """Return the exceptions of the file, by section."""
    file = file or FILE
    read: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text()) if file.exists() else {}
    return {
        section: {name: Exemption(**entry) for name, entry in entries.items()}
        for section, entries in read.items()
    }


def problems(found: Mapping[str, int], allowed: Section) -> list[str]:
    """Return one sentence for each number that is not the recorded one, or has no reason."""
    lines = []
    for name in sorted({*found, *allowed}):
        count, entry = found.get(name, 0), allowed.get(name, Exemption(0, "none"))
        if count > entry.count:
            lines.append(f"{name}: {count} found, and {entry.count} are allowed.")
        elif count < entry.count:
            lines.append(
                f"{name}: {count} found, and {entry.count} are recorded. Lower the number with"
                " `python -m tools.structure --record`."
            )
        elif not entry.reason.strip():
            lines.append(f"{name}: the exception has no reason. Write one, or rename.")
    return lines


def record(found: Mapping[str, Mapping[str, int]], file: Path | None = None) -> None:
    """Write the numbers, with the reasons of the entries that stay."""
    file = file or FILE
    before = recorded(file)
    written = {
        section: {
            name: _entry(name, count, before.get(section, {})) for name, count in in_it.items()
        }
        for section, in_it in found.items()
    }
    file.write_text(_HEAD + yaml.safe_dump(written, sort_keys=False, width=100))


def _entry(name: str, count: int, before: Section) -> dict[str, Any]:
    return {"count": count, "reason": before[name].reason if name in before else ""}
