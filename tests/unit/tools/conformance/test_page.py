"""The page says what was run and what was not."""

from dataclasses import replace

from tools.conformance.cases import ConformanceCase
from tools.conformance.judge import KnownFailure
from tools.conformance.page import FurtherRun, PublishedRun, render
from tools.conformance.results import FAILED, PASSED, CaseResult

CASES = [
    ConformanceCase("[sig-node] A [Conformance]", ""),
    ConformanceCase("[sig-apps] B|C [Conformance]", ""),
]
A, B = (case.name for case in CASES)


def result(name: str, state: str) -> CaseResult:
    return CaseResult(case=name, state=state, seconds=60.0, where="test/e2e/x.go:1")


def page(results, known=()) -> str:
    run = PublishedRun(version="1.36.4", machine="a box", cases=CASES, results=results, known=known)
    return render(run)


def test_a_side_without_results_is_reported_to_have_none():
    text = page({"control": {A: result(A, PASSED), B: result(B, PASSED)}, "tenant": {}})

    assert "| the super cluster itself | 2 | 2 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| a tenant with the policy `conformance` | 2 | not run |" in text
    assert "| sig-apps | 1 | 1 |" in text
    assert "Not explained" not in text


def test_a_run_that_has_not_come_to_its_end_reports_it_in_one_line():
    cases = [ConformanceCase(f"[sig-node] {number} [Conformance]", "") for number in range(30)]
    first = cases[0].name
    run = PublishedRun(
        version="1.36.4",
        machine="a box",
        cases=cases,
        results={"control": {first: result(first, PASSED)}},
        known=(),
    )

    assert "- 29 cases have no result, because they have not run yet" in render(run)
    assert cases[1].name not in render(run)


def test_known_failures_stand_with_cause_and_line_and_others_as_not_explained():
    both = {
        "control": {A: result(A, PASSED), B: result(B, PASSED)},
        "tenant": {A: result(A, FAILED), B: result(B, FAILED)},
    }
    row = KnownFailure(
        case=B, sides=("tenant", "baseline"), cause="so\nit is", owner="kubernetes", line="y:2"
    )

    text = page(both, [row])

    assert "| [sig-apps] B\\|C [Conformance] | so it is | kubernetes | `y:2` |" in text
    assert "## Not explained: a tenant with the policy `conformance`" in text
    assert f"- {A}: failed, test/e2e/x.go:1" in text
    given_up = text.partition("Further failures with the policy `baseline`")[2]
    assert given_up.partition("##")[0].strip().endswith("Nothing is listed.")


def test_results_report_of_which_commit_they_are_and_whether_they_were_tried_again():
    found = {
        "control": {A: replace(result(A, PASSED), commit="abc"), B: result(B, PASSED)},
        "tenant": {
            A: replace(result(A, PASSED), commit="abc"),
            B: replace(result(B, PASSED), commit="abd", is_again=True),
        },
    }

    text = page(found)

    assert "- control: of abc, 1 of a commit that was not recorded." in text
    assert "- tenant: of abc, abd, 1 tried a second time." in text


def test_a_control_that_sends_nothing_is_reported_to():
    cases = [ConformanceCase(f"[sig-node] {number} [Conformance]", "") for number in range(7)]
    failed = {case.name: result(case.name, FAILED) for case in cases}
    run = PublishedRun(version="1", machine="", cases=cases, results={"control": failed}, known=())

    assert "the run is void" in render(run)
    assert "is void" not in render(replace(run, cases=cases[:6]))


def test_a_tenant_of_another_minor_has_a_row_of_its_own():
    further = FurtherRun(
        version="1.37.2",
        super_version="1.36.4",
        cases=CASES,
        results={A: result(A, PASSED), B: result(B, FAILED)},
        known=(),
    )
    own = PublishedRun(version="1.36.4", machine="a box", cases=CASES, results={}, known=())

    text = render(replace(own, further=[further]))

    title = "a tenant of 1.37.2 on a super cluster of 1.36.4"
    assert text.count(f"| {title} | 2 | 1 | 0 | 1 | 0 | 0 |") == 1
    assert f"## Not explained: {title}\n\n- {B}: failed" in text
    assert "other minors" not in render(own)
