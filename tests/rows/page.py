"""The section `Rows` of `docs/reliability.md`: each row with the tests that show it. Pure.

Hazard: what no test shows is said in the row, never left away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.rows.carried import TESTS, Shown
from tests.rows.table import Row

PAGE = TESTS.parent / "docs" / "reliability.md"
TITLE = "Rows"
HEAD = """\
# Reliability

What is done to find out where the product breaks, and what came of it.
"""
_INTRO = """\
Written by `python -m tests.rows` from `tests/rows/rows.yaml` and from the docstrings of the tests,
which carry the ids of the rows that they show; do not edit. {summary}
"""
_HIGHEST = {"REL": 95, "SEC": 124, "V": 10, "X": 26}
"""By the letters of an id; a test may carry one that has no row here yet."""

Found = Mapping[str, Sequence[Shown]]


def problems(rows: Sequence[Row], found: Found) -> list[str]:
    """Return sentences about rows without a word, and ids without a row."""
    told = [
        f"{row.id} has no test that carries it; write one, or give it `left_out` with a reason"
        for row in rows
        if not found.get(row.id) and not row.left_out
    ]
    told += [
        f"{row.id} is left out, and {found[row.id][0].name} carries it; take `left_out` away"
        for row in rows
        if found.get(row.id) and row.left_out
    ]
    told += [
        f"{found[each][0].name} carries {each}, which is no row"
        for each in sorted(found)
        if not _is_one(each)
    ]
    return told


def _is_one(found: str) -> bool:
    letters, _, number = found.partition("-")
    return 1 <= int(number) <= _HIGHEST[letters]


def summary(rows: Sequence[Row], found: Found) -> str:
    """Return how many rows there are, and how many of them are shown."""
    shown = [row for row in rows if found.get(row.id)]
    lacking = sum(1 for row in shown if row.lacks)
    tests = {test for row in shown for test in found[row.id]}
    return (
        f"{len(rows)} rows: {len(shown)} with a test of their own ({len(tests)} tests), of"
        f" {lacking} of them a part is not shown; {len(rows) - len(shown)} are left out."
    )


def render(rows: Sequence[Row], found: Found) -> str:
    """The body of the section."""
    parts = [_INTRO.format(summary=summary(rows, found))]
    for group in dict.fromkeys(row.group for row in rows):
        listed = [_line(row, found.get(row.id, ())) for row in rows if row.group == group]
        head = "| row | what must hold | shown by | not shown |\n|---|---|---|---|"
        parts.append("\n".join([f"### {group}", "", head, *listed, ""]))
    return "\n".join(parts)


def _line(row: Row, tests: Sequence[Shown]) -> str:
    shown = "<br>".join(f"`{test.module}` {test.name.removeprefix('test_')}" for test in tests)
    lacks = f"**left out**: {row.left_out}" if row.left_out else row.lacks
    return f"| {row.id} | {_cell(row.asks)} | {shown} | {_cell(lacks)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
