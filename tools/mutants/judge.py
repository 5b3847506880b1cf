"""Verdict on a run: its survivors against the list of known ones. Pure.

A survivor that is not listed fails the run, and so does a listed one that is killed or no longer
made, because the list must be current.

Hazard: a list that may grow forgives everything. KILLED_AT_LEAST limits it, for each part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.mutants.known import KnownSurvivor
from tools.mutants.parts import PARTS, part_of
from tools.mutants.results import KILLED, TIMEOUT, UNCHECKED, Mutant

KILLED_AT_LEAST = 0.9
"""Least share of killed mutants in each part. Mutants with endless tests count as killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationAssessment:
    """Result of a run. A run with empty `problems` is good."""

    counts: Mapping[str, Counter[str]]
    """By part, then by state."""
    new: Sequence[Mutant] = ()
    """Survived, and not listed."""
    healed: Sequence[KnownSurvivor] = ()
    """Listed, and killed or not made."""
    problems: list[str] = field(default_factory=list)
    """Sentences. Any of them fails the run."""


def score(counts: Counter[str]) -> float:
    """Return the share of tried mutants that was noticed. Without any it is all."""
    total = counts.total() - counts[UNCHECKED]
    return (counts[KILLED] + counts[TIMEOUT]) / total if total else 1.0


def judge(mutants: Iterable[Mutant], known: Sequence[KnownSurvivor]) -> MutationAssessment:
    """Judge a run."""
    found = list(mutants)
    counts: dict[str, Counter[str]] = {part: Counter() for part in PARTS}
    for each in found:
        counts[part_of(each.place.module)][each.state] += 1
    listed = {row.place for row in known}
    surviving = {each.place for each in found if each.survived}
    verdict = MutationAssessment(
        counts=counts,
        new=[each for each in found if each.survived and each.place not in listed],
        healed=[row for row in known if row.place not in surviving],
    )
    verdict.problems.extend(_problems(verdict))
    return verdict


def _problems(verdict: MutationAssessment) -> Iterable[str]:
    for each in verdict.new:
        yield (
            f"survived and is not listed: {each.place.module}, {each.place.function}:\n"
            f"  - {each.place.was}\n  + {each.place.becomes}\n  (mutmut show '{each.name}')"
        )
    for row in verdict.healed:
        yield (
            f"is listed and does not survive. Remove it from known.yaml: {row.place.module},"
            f" {row.place.function}: {row.place.becomes}"
        )
    for part, counts in verdict.counts.items():
        if not counts.total():
            yield f"no mutant of the part {part!r} was made"
        if counts[UNCHECKED]:
            yield f"{counts[UNCHECKED]} mutants of {part!r} were not tried: run --go-on"
        if score(counts) < KILLED_AT_LEAST:
            yield f"of {part!r} {score(counts):.1%} are killed, and {KILLED_AT_LEAST:.0%} must be"
