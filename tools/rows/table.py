"""The tracked list of rows: the requirements, and which are left out with a reason.

Hazard: a row that is left out must have a reason, otherwise it is an excuse. `rows` refuses one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PRIORITIES = ("P0", "P1", "P2")
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementRow:
    """One thing that must hold."""

    id: str
    group: str
    asks: str
    lacks: str = ""
    """Part of the row that the tests do not show."""
    left_out: str = ""
    """Reason for a row without a test. Empty if there must be one."""
    priority: str = ""
    """`P0`, `P1` or `P2`, on a page with priorities."""


def rows(name: str) -> list[RequirementRow]:
    """The rows of a file, in their order. Raises ValueError as `read` does."""
    return read((HERE / name).read_text(), name)


def read(text: str, name: str) -> list[RequirementRow]:
    """Return the rows of a text. Raises ValueError for an incomplete one."""
    groups = yaml.safe_load(text)
    found = [_row(group, row, name) for group, listed in groups.items() for row in listed]
    ids = [row.id for row in found]
    for each in ids:
        if ids.count(each) > 1:
            raise ValueError(f"{name} lists a row twice: {each}")
    return found


def _row(group: str, row: dict[str, Any], name: str) -> RequirementRow:
    said = {key: " ".join(str(value).split()) for key, value in row.items()}
    made = RequirementRow(group=group, **said)
    if not made.asks or (made.lacks and made.left_out):
        raise ValueError(
            f"the row {made.id} in {name} needs `asks`, and `lacks` or `left_out` or neither"
        )
    if made.priority not in ("", *PRIORITIES):
        raise ValueError(f"the row {made.id} in {name} has a priority that is none")
    return made
