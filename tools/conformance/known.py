"""The tracked lists: `known.yaml` has the known failures, and `slice.yaml` a short run.

Hazard: a row must have a cause, otherwise it is an excuse. `failures` refuses one without.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tools.conformance.judge import KnownFailure

HERE = Path(__file__).resolve().parent
OWNERS = ("kubernetes", "ours", "testbed", "policy")
SIDES = ("control", "tenant", "baseline")


def failures(text: str | None = None) -> list[KnownFailure]:
    """Return the known failures. Raises ValueError for an incomplete row."""
    rows = yaml.safe_load((HERE / "known.yaml").read_text() if text is None else text) or []
    found = [_known(row) for row in rows]
    names = [row.case for row in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"known.yaml lists a case twice: {name}")
    return found


def of_minor(rows: Iterable[KnownFailure], minor: str) -> list[KnownFailure]:
    """Return the known failures in the suite of a minor."""
    return [row for row in rows if not row.minors or minor in row.minors]


def slice_names(text: str | None = None) -> list[str]:
    """The names of the cases of a short run."""
    table = yaml.safe_load((HERE / "slice.yaml").read_text() if text is None else text)
    return [name for names in table.values() for name in names]


def _known(row: dict[str, Any]) -> KnownFailure:
    known = KnownFailure(
        case=row["case"],
        sides=tuple(row["sides"]),
        cause=row["cause"].strip(),
        owner=row["owner"],
        line=row.get("line", ""),
        minors=tuple(row.get("minors", ())),
    )
    if not known.cause or known.owner not in OWNERS or not set(known.sides) <= set(SIDES):
        raise ValueError(
            f"the row of {known.case!r} in known.yaml needs a cause, an owner of {OWNERS} and "
            f"sides of {SIDES}"
        )
    if known.owner in ("kubernetes", "policy") and not known.line:
        raise ValueError(f"the row of {known.case!r} in known.yaml needs the line that makes it so")
    return known
