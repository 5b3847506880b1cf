"""Findings of the security review: what prevents each one now, and the tests that show it. Pure.

Owns the page `docs/security-findings.md`, written by `python -m tools.rows` from `findings.yaml`.
Hazard: a finding must name tests that exist, or the page with the reason why it stays. Otherwise a
test that was renamed would leave a finding without proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.rows.carried import TESTS, LocatedTest, list_tests

ROOT = TESTS.parent
FILE = Path(__file__).resolve().parent / "findings.yaml"
PAGE = ROOT / "docs" / "security-findings.md"
IDS = tuple(f"T2-{number:02}" for number in range(1, 39))
"""Findings of the review, in its order."""
_HEAD = """\
# Findings of the security review

Written by `python -m tools.rows` from `tools/rows/findings.yaml`. Do not edit. The review read
commit 3ae6432 on 2026-11-27. The page is for auditors. [SECURITY.md](../SECURITY.md) has the limits
of a tenant today, and [reliability.md](reliability.md) has all rows with their tests.

| finding | what was found | prevented by | shown by | what stays |
|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFinding:
    """One finding, and its proof."""

    id: str
    finding: str
    fixed: Sequence[str]
    """Files that prevent it now."""
    tests: Sequence[str]
    """`FILE::TEST`, below `tests/`."""
    stays: str = ""
    """Part that remains, with its reason."""

    def locate_tests(self) -> Iterator[LocatedTest]:
        """Yield the tests. Raises ValueError for a name of another form."""
        for each in self.tests:
            module, found, name = each.partition("::")
            if not found:
                raise ValueError(f"{self.id}: {each} is not of the form FILE::TEST")
            yield LocatedTest(module, name)


def read(text: str) -> list[ReviewFinding]:
    """Return the findings of a text, in their order."""
    return [
        ReviewFinding(**{**each, "stays": " ".join(str(each.get("stays", "")).split())})
        for each in yaml.safe_load(text)
    ]


def find_problems(findings: Sequence[ReviewFinding]) -> list[str]:
    """Return a sentence for each finding without proof, and for each name of nothing."""
    problems = []
    if tuple(each.id for each in findings) != IDS:
        problems.append(f"{FILE.name} must list {IDS[0]} to {IDS[-1]}, each once and in order.")
    for each in findings:
        if not each.tests and not re.search(r"\]\([^)]+\.md[^)]*\)", each.stays):
            problems.append(
                f"{each.id} has neither a test nor a page with the reason why it stays."
            )
        problems += [
            f"{each.id} names {path}, which is no file."
            for path in each.fixed
            if not (ROOT / path).is_file()
        ]
        problems += [
            f"{each.id} names {test.module} {test.name}, which is no test."
            for test in each.locate_tests()
            if test.name not in list_tests(test.module)
        ]
    return problems


def render(findings: Sequence[ReviewFinding]) -> str:
    """Return the whole page."""
    return _HEAD + "".join(f"{_build_line(each)}\n" for each in findings)


def _build_line(finding: ReviewFinding) -> str:
    fixed = "<br>".join(f"`{path}`" for path in finding.fixed)
    tests = "<br>".join(
        f"`{test.module}` {test.name.removeprefix('test_')}" for test in finding.locate_tests()
    )
    cells = (finding.id, finding.finding, fixed, tests, finding.stays)
    return f"| {' | '.join(cells)} |"
