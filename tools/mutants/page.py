"""The section `Mutation testing` of `docs/reliability.md`, and the same figures for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support import sections
from tools.mutants.judge import KILLED_AT_LEAST, MutationAssessment, score
from tools.mutants.known import KnownSurvivor
from tools.mutants.parts import PARTS, part_of
from tools.mutants.results import KILLED, SURVIVED, TIMEOUT, UNCHECKED, UNTESTED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
HEAD = """\
# Reliability

Programs that search for faults of the product, and their findings.
"""
TITLE = "Mutation testing"
_INTRO = """\
Written by `python -m tools.mutants page`. Do not edit.

`make mutants` uses mutmut to change one place at a time in the modules for decisions, names,
ownership, delete protection and pods. For each change it runs the unit tests that execute the
place. At least {least:.0%} of the mutants of each part must be killed. Known survivors are in
`tools/mutants/known.yaml` with a reason. Any other survivor fails the run, and so does a listed
mutant that is killed. Two kinds of lines are not mutated: lines that only log, and code outside of
functions, such as tables. `docs/kinds.md` is generated from these tables, and a test compares it.
"""
_HEADINGS = ("part", "mutants", "killed", "timeout", "survived", "not tried", "score")


def render(verdict: MutationAssessment, known: Sequence[KnownSurvivor]) -> str:
    """The body of the section."""
    lines = [f"| {' | '.join((*_HEADINGS, 'modules'))} |", "|---|---|---|---|---|---|---|---|"]
    for part, counts in verdict.counts.items():
        modules = ", ".join(f"`{name}`" for name in PARTS[part])
        lines.append(f"| {' | '.join((part, *_cells(counts), modules))} |")
    total = sum(verdict.counts.values(), Counter())
    lines.append(f"| **all** | {' | '.join(_cells(total))} | |")
    reasons = Counter((part_of(row.place.module), row.why) for row in known)
    told = [f"| {part} | {count} | {why} |" for (part, why), count in sorted(reasons.items())]
    return "\n".join(
        [
            _INTRO.format(least=KILLED_AT_LEAST),
            *lines,
            "",
            "Survivors and reasons:",
            "",
            "| part | places | reason |",
            "|---|---|---|",
            *told,
        ]
    )


def totals(verdict: MutationAssessment) -> str:
    """The figures, for a terminal."""
    rows = [(part, *_cells(counts)) for part, counts in verdict.counts.items()]
    rows.append(("all", *_cells(sum(verdict.counts.values(), Counter()))))
    return "\n".join("".join(f"{cell:>11}" for cell in row) for row in (_HEADINGS, *rows))


def _cells(counts: Counter[str]) -> list[str]:
    survived = counts[SURVIVED] + counts[UNTESTED]
    numbers = (counts.total(), counts[KILLED], counts[TIMEOUT], survived, counts[UNCHECKED])
    return [*map(str, numbers), f"{score(counts):.1%}"]


def write(body: str) -> None:
    """Put the section where it belongs."""
    text = PAGE.read_text() if PAGE.exists() else HEAD
    PAGE.write_text(sections.put(text, TITLE, body))
