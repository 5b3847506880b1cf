"""A run against the list of known failures and against the control."""

from tools.conformance.cases import ConformanceCase
from tools.conformance.judge import (
    CONTROL_FAILS_AT_MOST,
    LISTED_AT_MOST,
    KnownFailure,
    judge,
    strange,
    void,
)
from tools.conformance.results import FAILED, LOST, PASSED, SKIPPED, CaseResult

CASES = [ConformanceCase(name, "") for name in "abcd"]


def results(**states: str) -> dict[str, CaseResult]:
    return {name: CaseResult(case=name, state=state, seconds=1.0) for name, state in states.items()}


def known(case: str, *sides: str) -> KnownFailure:
    return KnownFailure(case=case, sides=sides or ("tenant",), cause="so", owner="ours")


GOOD = results(a=PASSED, b=PASSED, c=PASSED, d=PASSED)


def test_a_run_in_which_all_passes_is_good():
    verdict = judge("tenant", CASES, GOOD, GOOD, [])

    assert (verdict.tried, verdict.passed, verdict.problems) == (4, 4, [])


def test_a_new_failure_fails_the_run_and_a_listed_one_does_not():
    found = results(a=FAILED, b=FAILED, c=PASSED, d=PASSED)

    verdict = judge("tenant", CASES, found, GOOD, [known("b")])

    assert (verdict.new, verdict.excused) == (["a"], ["b"])
    assert verdict.problems == ["failed and is not listed: a"]


def test_a_failure_that_no_one_compared_with_the_control_is_new():
    assert judge("tenant", CASES[:1], results(a=FAILED), {}, []).new == ["a"]


def test_a_listed_case_that_passes_fails_the_run():
    verdict = judge("tenant", CASES, GOOD, GOOD, [known("c")])

    assert verdict.healed == ["c"]
    assert len(verdict.problems) == 1


def test_a_row_for_another_side_excuses_nothing():
    verdict = judge("tenant", CASES, GOOD | results(a=FAILED), GOOD, [known("a", "baseline")])

    assert verdict.new == ["a"]
    assert judge("tenant", CASES, GOOD, GOOD, [known("a", "baseline")]).healed == []


def test_what_fails_on_the_control_as_well_is_distinguished():
    verdict = judge("tenant", CASES, GOOD | results(a=FAILED), GOOD | results(a=FAILED), [])

    assert (verdict.with_control, verdict.new, verdict.problems) == (["a"], [], [])


def test_skipped_lost_and_absent_cases_fail_the_run():
    found = results(a=PASSED, b=SKIPPED, c=LOST)

    verdict = judge("tenant", CASES, found, GOOD, [known("b"), known("d")])

    assert (verdict.skipped, verdict.missing) == (["b"], ["c", "d"])
    assert len(verdict.problems) == 3


def test_a_list_that_grows_too_long_fails_the_run():
    cases = [ConformanceCase(str(number), "") for number in range(LISTED_AT_MOST + 1)]
    found = {c.name: CaseResult(case=c.name, state=FAILED, seconds=0.0) for c in cases}
    listed = [known(case.name) for case in cases]

    assert judge("tenant", cases[1:], found, {}, listed[1:]).problems == []
    assert len(judge("tenant", cases, found, {}, listed).problems) == 1
    assert judge("baseline", cases, found, {}, [known(c.name, "baseline") for c in cases]).new == []


def test_a_control_that_fails_too_much_makes_the_run_void():
    cases = [ConformanceCase(str(number), "") for number in range(20)]
    found = {
        case.name: CaseResult(case=case.name, state=PASSED, seconds=0.0)
        for case in cases[CONTROL_FAILS_AT_MOST:]
    }

    assert void(cases, found) == ""
    del found["19"]
    assert void(cases, found).startswith("7 of 20 cases did not pass")


def test_a_listed_name_that_the_suite_does_not_have_is_reported():
    assert strange(CASES, [known("a")]) == []
    assert len(strange(CASES, [known("a"), known("z")])) == 1
