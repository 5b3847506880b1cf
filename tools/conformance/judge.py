"""Verdict on a run: its failures against the list of known ones and against the control. Pure.

A failure that is not listed fails the run, and so does a listed case that passes, because the list
must be current.

Hazard: a list that may grow forgives everything. LISTED_AT_MOST limits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.conformance.cases import ConformanceCase, identify
from tools.conformance.results import LOST, PASSED, SKIPPED, CaseResult

CONTROL_FAILS_AT_MOST = 6
"""Limit for a whole run. With more failures on the super cluster the run is no proof about tenants.
"""

LISTED_AT_MOST = 21
"""Cases of one minor that may be listed for a tenant with the policy `conformance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """A failure that is known: on which sides, why, whose it is and where the reason stands."""

    case: str
    sides: tuple[str, ...]
    cause: str
    owner: str
    """`kubernetes`: cannot pass in a tenant without kubelets of its own. `policy`: given up on
    purpose. `ours`: to be fixed. `testbed`: fault of the testbed.
    """
    line: str = ""
    """The line of Kubernetes, or of the policy, that makes it so."""
    minors: tuple[str, ...] = ()
    """Minors of the suite that it fails in. Empty: each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAssessment:
    """Names of cases by result. A run with empty `problems` is good."""

    side: str
    tried: int
    passed: int
    new: list[str] = field(default_factory=list)
    """Failed here, passes on the control, and is not listed."""
    excused: list[str] = field(default_factory=list)
    """Failed, and is listed."""
    healed: list[str] = field(default_factory=list)
    """Listed, and passes."""
    with_control: list[str] = field(default_factory=list)
    """Failed here and on the control, so no proof about tenants."""
    skipped: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Asked for and without a result, or lost."""
    problems: list[str] = field(default_factory=list)
    """Sentences. Any of them fails the run."""


def judge(
    side: str,
    cases: Sequence[ConformanceCase],
    results: Mapping[str, CaseResult],
    control: Mapping[str, CaseResult],
    known: Iterable[KnownFailure],
) -> RunAssessment:
    """Judge the results of one side. `cases` are the cases that had to run.

    The side `control` has no control results, because it is the reference.
    """
    rows = {identify(row.case) for row in known if side in row.sides}
    names = [case.name for case in cases]
    listed = {name for name in names if identify(name) in rows}
    states = {name: results[name].state for name in names if name in results}
    missing = [name for name in names if states.get(name, LOST) == LOST]
    skipped = [name for name in names if states.get(name) == SKIPPED]
    passed = [name for name in names if states.get(name) == PASSED]
    aside = {*missing, *skipped, *passed}
    failed = [name for name in names if name not in aside]
    with_control = [
        name
        for name in failed
        if name not in listed and name in control and control[name].state != PASSED
    ]
    verdict = RunAssessment(
        side=side,
        tried=len(names),
        passed=len(passed),
        new=[name for name in failed if name not in listed and name not in with_control],
        excused=[name for name in failed if name in listed],
        healed=[name for name in passed if name in listed],
        with_control=with_control,
        skipped=skipped,
        missing=missing,
    )
    verdict.problems.extend(_problems(verdict, len(rows)))
    return verdict


def void(cases: Sequence[ConformanceCase], control: Mapping[str, CaseResult]) -> str:
    """Return why a control run of the whole suite is no proof. Empty if it is one."""
    bad = [case.name for case in cases if _state(control, case) != PASSED]
    if len(bad) <= CONTROL_FAILS_AT_MOST:
        return ""
    return (
        f"{len(bad)} of {len(cases)} cases did not pass on the super cluster itself, and "
        f"{CONTROL_FAILS_AT_MOST} may: the run is void. Check the control first"
    )


def strange(cases: Sequence[ConformanceCase], known: Iterable[KnownFailure]) -> list[str]:
    """Sentences about listed names that the suite does not have."""
    names = {identify(case.name) for case in cases}
    return [
        f"known.yaml lists {row.case!r}, which the suite does not have"
        for row in known
        if identify(row.case) not in names
    ]


def _state(results: Mapping[str, CaseResult], case: ConformanceCase) -> str:
    return results[case.name].state if case.name in results else LOST


def _problems(verdict: RunAssessment, listed: int) -> Iterable[str]:
    for name in verdict.new:
        yield f"failed and is not listed: {name}"
    for name in verdict.healed:
        yield f"passes and is listed as failing. Remove it from known.yaml: {name}"
    for name in verdict.skipped:
        yield f"was skipped: {name}"
    for name in verdict.missing:
        yield f"has no result: {name}"
    if verdict.side == "tenant" and listed > LISTED_AT_MOST:
        yield f"known.yaml lists {listed} cases for tenants, and {LISTED_AT_MOST} are the most"
