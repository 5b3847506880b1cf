"""The section `Rows` of a page: each row with the tests that show it. Pure.

Hazard: a row must name what no test shows. Otherwise it promises too much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.rows.carried import TESTS, LocatedTest
from tools.rows.results import RecordedRun
from tools.rows.table import RequirementRow

TITLE = "Rows"
_INTRO = """\
Written by `python -m tools.rows` from `tools/rows/{rows}` and from the docstrings of the tests,
which have the ids of the rows that they show. Do not edit. {summary}
"""

FoundTests = Mapping[str, Sequence[LocatedTest]]
_RESULTS = """\
Priority P0 means that the row is a goal of this project for a second cluster. For all other rows,
and for postponed rows, the priority comes from the table of other projects' features. It is P1 if
that table does not have the row. Results were recorded at commit {commit} on {date}.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPage:
    """A page with a table of rows."""

    file: Path
    rows: str
    """The file beside this one that lists them."""
    ids: re.Pattern[str]
    elsewhere: re.Pattern[str]
    """Ids of the same kind that are rows, but of no table here."""
    head: str
    """First lines of a new page."""
    has_results: bool = False
    """Whether it has the results of the last run of the tests."""


_DOCS = TESTS.parent / "docs"
RELIABILITY = RowsPage(
    file=_DOCS / "reliability.md",
    rows="rows.yaml",
    ids=re.compile(r"\b(?:REL|SEC|V|X)-\d{2,3}\b"),
    elsewhere=re.compile(
        r"REL-(?:5[5-9]|6\d|7[0-5])|SEC-(?:2[3-9]|[3-9]\d|1[01]\d|12[0-4])|X-(?:[01]\d|2[^6]|3\d)"
    ),
    head="""\
# Reliability

Programs that search for faults of the product, and their findings.
""",
)
OFFLOAD = RowsPage(
    file=_DOCS / "offload.md",
    rows="offload.yaml",
    ids=re.compile(r"\bA[0124]-\d+\b"),
    elsewhere=re.compile(r"A4-0\d"),
    head="""\
# Pods in other clusters

Published posts describe uses of other projects for pods in other clusters. This page lists the
results that this project must show for the same uses. The [walkthroughs](walkthroughs/README.md)
repeat the posts step by step.
""",
    has_results=True,
)
PAGES = (RELIABILITY, OFFLOAD)


def problems(page: RowsPage, rows: Sequence[RequirementRow], found: FoundTests) -> list[str]:
    """Return sentences about rows without a word, and ids without a row."""
    told = [
        f"{row.id} has no test with its id. Write one, or add `left_out` with a reason"
        for row in rows
        if not found.get(row.id) and not row.left_out
    ]
    told += [
        f"{row.id} is left out, but {found[row.id][0].name} shows it. Remove `left_out`"
        for row in rows
        if found.get(row.id) and row.left_out
    ]
    known = {row.id for row in rows}
    told += [
        f"{found[each][0].name} carries {each}, which is no row"
        for each in sorted(found)
        if each not in known and not page.elsewhere.fullmatch(each)
    ]
    return told


def summary(rows: Sequence[RequirementRow], found: FoundTests) -> str:
    """Return how many rows there are, and how many of them are shown."""
    shown = [row for row in rows if found.get(row.id)]
    lacking = sum(1 for row in shown if row.lacks)
    tests = {test for row in shown for test in found[row.id]}
    return (
        f"{len(rows)} rows: {len(shown)} have tests of their own ({len(tests)} tests), and"
        f" {len(rows) - len(shown)} are left out. The tests show {lacking} rows only in part."
    )


def render(
    page: RowsPage, rows: Sequence[RequirementRow], found: FoundTests, results: RecordedRun
) -> str:
    """The body of the section."""
    parts = [_INTRO.format(rows=page.rows, summary=summary(rows, found))]
    heads = ["row", "what must hold", "shown by", "not shown"]
    if page.has_results:
        parts.append(_RESULTS.format(commit=results.commit or "?", date=results.date or "?"))
        heads[1:1] = ["priority"]
        heads[3:3] = ["automated", "result"]
    head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    for group in dict.fromkeys(row.group for row in rows):
        listed = []
        for row in rows:
            if row.group == group:
                tests = found.get(row.id, ())
                said = _result(row, tests, results) if page.has_results else ()
                listed.append(_line(row, tests, said, has_priority=page.has_results))
        parts.append("\n".join([f"### {group}", "", head, *listed, ""]))
    return "\n".join(parts)


def _result(
    row: RequirementRow, tests: Sequence[LocatedTest], results: RecordedRun
) -> tuple[str, str]:
    """Whether a row is automated, and what became of its tests."""
    if not tests:
        return "no", ""
    found = {results.tests.get(f"{test.module} {test.name}") for test in tests}
    automated = "in part" if row.lacks else "yes"
    if "failed" in found:
        return automated, "**red**"
    return automated, "green" if found == {"passed"} else "not run"


def _line(
    row: RequirementRow, tests: Sequence[LocatedTest], said: Sequence[str], *, has_priority: bool
) -> str:
    shown = "<br>".join(f"`{test.module}` {test.name.removeprefix('test_')}" for test in tests)
    first = [row.priority] if has_priority else []
    lacks = f"**left out**: {row.left_out}" if row.left_out else row.lacks
    return f"| {' | '.join([row.id, *first, _cell(row.asks), *said, shown, _cell(lacks)])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
