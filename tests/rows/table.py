"""The tracked list of rows: what is asked, and what is left out with its reason.

Hazard: a row that is left out without a reason is an excuse; `rows` refuses one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that must hold."""

    id: str
    group: str
    asks: str
    lacks: str = ""
    """What of it the tests do not show."""
    left_out: str = ""
    """Why there is no test; empty when there must be one."""


def rows(text: str | None = None) -> list[Row]:
    """The rows in their order. Raises ValueError for one that does not say what it must."""
    groups = yaml.safe_load((HERE / "rows.yaml").read_text() if text is None else text)
    found = [_row(group, row) for group, listed in groups.items() for row in listed]
    names = [row.id for row in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"rows.yaml lists a row twice: {name}")
    return found


def _row(group: str, row: dict[str, Any]) -> Row:
    said = {key: " ".join(str(value).split()) for key, value in row.items()}
    made = Row(group=group, **said)
    if not made.asks or (made.lacks and made.left_out):
        raise ValueError(
            f"the row {made.id} in rows.yaml needs `asks`, and `lacks` or `left_out` or neither"
        )
    return made
