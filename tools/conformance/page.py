"""The page `docs/conformance.md`, made from the results. Pure.

Hazard: the page must show each side. A side without results is named, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tools.conformance.cases import ConformanceCase
from tools.conformance.judge import KnownFailure, RunAssessment, judge, void
from tools.conformance.results import PASSED, CaseResult

_HEAD = """\
# Kubernetes conformance

Written by `python -m tools.conformance page`. Do not edit.

`make conformance` runs the `[Conformance]` cases of Kubernetes {version}, built from its own Go
module. It runs them on the embedded super cluster as a control, and in a tenant, with two nodes.
Known failures are listed in `tools/conformance/known.yaml`. Any other failure fails the run, and so
does a listed case that passes.
"""

_TITLES = {
    "control": "the super cluster itself",
    "tenant": "a tenant with the policy `conformance`",
    "baseline": "a tenant with the policy `baseline`",
}

_NOTES = {
    "baseline": """\
In this tenant a Deployment keeps a pod on each node. The policy has `nodes.expose: onDemand`, which
shows a node only while a pod of the tenant runs on it. The suite does not start without nodes.

"""
}
"""Text before the list of a side."""

_LISTS = {
    "control": "Failures on the super cluster itself, caused by the testbed",
    "tenant": "Failures in a tenant with the policy `conformance`",
    "baseline": "Further failures with the policy `baseline`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """All contents of the page."""

    version: str
    machine: str
    cases: Sequence[ConformanceCase]
    results: Mapping[str, Mapping[str, CaseResult]]
    """By side, then by case."""
    known: Sequence[KnownFailure]
    further: Sequence[FurtherRun] = ()
    """Tenants of other minors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherRun:
    """A tenant of another minor, which ran the suite of that minor."""

    version: str
    super_version: str
    cases: Sequence[ConformanceCase]
    results: Mapping[str, CaseResult]
    known: Sequence[KnownFailure]

    @property
    def title(self) -> str:
        """The minors of the tenant and of the super cluster."""
        return f"a tenant of {self.version} on a super cluster of {self.super_version}"


def render(run: PublishedRun) -> str:
    """The page."""
    control = run.results.get("control", {})
    verdicts = {
        side: judge(side, run.cases, found, {} if side == "control" else control, run.known)
        for side, found in run.results.items()
        if found
    }
    parts = [_HEAD.format(version=run.version), _summary(run, verdicts), _groups(run)]
    for side, title in _LISTS.items():
        parts.append(f"## {title}\n\n{_NOTES.get(side, '')}{_known(run, side)}")
    for side, verdict in verdicts.items():
        parts.append(_open(_TITLES[side], verdict, run.results[side]))
    parts += _further(run.further)
    return "\n".join(filter(None, parts))


def _summary(run: PublishedRun, verdicts: Mapping[str, RunAssessment]) -> str:
    lines = [
        "| where | cases | passed | listed | as the control | failed | skipped | no result |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for side, title in _TITLES.items():
        verdict = verdicts.get(side)
        if verdict is None:
            lines.append(f"| {title} | {len(run.cases)} | not run | | | | | |")
            continue
        counts = (verdict.excused, verdict.with_control, verdict.new, verdict.skipped)
        numbers = [verdict.tried, verdict.passed, *map(len, counts), len(verdict.missing)]
        lines.append(f"| {title} | {' | '.join(map(str, numbers))} |")
    seconds = {side: sum(r.seconds for r in found.values()) for side, found in run.results.items()}
    took = ", ".join(f"{side} {total / 60:.0f} min" for side, total in seconds.items() if total)
    lines += ["", f"Machine: {run.machine}. Total time in the cases: {took}."]
    lines += [f"- {side}: {_origin(found)}." for side, found in run.results.items() if found]
    control = run.results.get("control", {})
    if all(case.name in control for case in run.cases) and (said := void(run.cases, control)):
        lines.append(f"- {said}.")
    return "\n".join([*lines, ""])


def _further(runs: Sequence[FurtherRun]) -> Iterable[str]:
    """Return the runs of other minors, each beside the list that holds for its suite."""
    if not runs:
        return
    lines = [
        "| where | cases | passed | listed | failed | skipped | no result | commits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    verdicts = [judge("tenant", run.cases, run.results, {}, run.known) for run in runs]
    for run, verdict in zip(runs, verdicts, strict=True):
        counts = (verdict.excused, verdict.new, verdict.skipped, verdict.missing)
        numbers = [verdict.tried, verdict.passed, *map(len, counts)]
        title, origin = run.title, _origin(run.results)
        lines.append(f"| {title} | {' | '.join(map(str, numbers))} | {origin} |")
    yield "\n".join(["## Tenants of other minors", "", *lines, ""])
    for run, verdict in zip(runs, verdicts, strict=True):
        yield _open(run.title, verdict, run.results)


def _origin(found: Mapping[str, CaseResult]) -> str:
    """Return the commits of the results, and how many results are of a second try."""
    commits = sorted({result.commit for result in found.values() if result.commit})
    untold = sum(not result.commit for result in found.values())
    told = [f"of {', '.join(commits)}"] if commits else []
    told += [f"{untold} of a commit that was not recorded"] if untold else []
    again = sum(result.is_again for result in found.values())
    told += [f"{again} tried a second time"] if again else [] if untold else ["each tried once"]
    return ", ".join(told)


def _groups(run: PublishedRun) -> str:
    sides = [side for side in _TITLES if run.results.get(side)]
    lines = [
        f"| group | cases | {' | '.join(sides)} |",
        f"|---|---|{'---|' * len(sides)}",
    ]
    for group in sorted({case.group for case in run.cases}):
        names = [case.name for case in run.cases if case.group == group]
        passed = [str(_passed(run.results[side], names)) for side in sides]
        lines.append(f"| {group} | {len(names)} | {' | '.join(passed)} |")
    return "\n".join(["Passed, by group:", "", *lines, ""])


def _passed(results: Mapping[str, CaseResult], names: Iterable[str]) -> int:
    return sum(1 for name in names if name in results and results[name].state == PASSED)


def _known(run: PublishedRun, side: str) -> str:
    rows = [row for row in run.known if side in row.sides]
    if side == "baseline":  # cases that fail with the wider policy, too, are listed before
        rows = [row for row in rows if "tenant" not in row.sides]
    if not rows:
        return "Nothing is listed.\n"
    lines = ["| case | cause | owner | line |", "|---|---|---|---|"]
    for row in rows:
        cause = " ".join(row.cause.split())
        line = f"`{row.line}`" if row.line else ""
        lines.append(f"| {_cell(row.case)} | {_cell(cause)} | {row.owner} | {line} |")
    return "\n".join([*lines, ""])


def _open(title: str, verdict: RunAssessment, results: Mapping[str, CaseResult]) -> str:
    """Return the results that a good run does not have."""
    names = [*verdict.new, *verdict.with_control, *verdict.skipped]
    unfinished = len(verdict.missing) > _MISSING_AT_MOST
    names += [] if unfinished else verdict.missing
    lines = [
        f"- {name}: {results[name].state if name in results else 'no result'}"
        + (f", {results[name].where}" if name in results and results[name].where else "")
        for name in names
    ]
    lines += [f"- {name}: passes although it is listed" for name in verdict.healed]
    lines += (
        [f"- {len(verdict.missing)} cases have no result, because they have not run yet"]
        if unfinished
        else []
    )
    if not lines:
        return ""
    return "\n".join([f"## Not explained: {title}", "", *lines, ""])


_MISSING_AT_MOST = 20
"""Number of cases without a result that are named. With more of them the run has not ended."""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
