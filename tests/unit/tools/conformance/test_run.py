"""A run: what is open is run, side by side or alone. What took the program with it is run alone."""

import threading
from dataclasses import replace

import pytest

from tools.conformance.cases import ConformanceCase
from tools.conformance.results import FAILED, LOST, PASSED, CaseResult, ResultStore
from tools.conformance.run import RunPlan, run
from tools.conformance.suite import BatchOutcome


def case(name: str) -> ConformanceCase:
    return ConformanceCase(name, "")


def outcome(batch, state: str = PASSED) -> BatchOutcome:
    results = {c.name: CaseResult(case=c.name, state=state, seconds=1.0) for c in batch}
    return BatchOutcome(results, {c.name: "what it printed" for c in batch if state != PASSED})


@pytest.fixture
def plan(tmp_path) -> RunPlan:
    return RunPlan(
        store=ResultStore(tmp_path / "r.jsonl"), logs=tmp_path / "logs", workers=2, size=2
    )


def test_what_has_a_result_is_not_run_again(plan):
    plan.store.add([CaseResult(case="a", state=FAILED, seconds=1.0)])
    ran = []

    run([case("a"), case("b")], plan, lambda batch: ran.extend(batch) or outcome(batch), print)

    assert [c.name for c in ran] == ["b"]
    assert {name: r.state for name, r in plan.store.read().items()} == {"a": FAILED, "b": PASSED}


def test_batches_run_side_by_side_and_serial_cases_alone_at_the_end(plan):
    both = threading.Barrier(2, timeout=30)
    running = []

    def execute(batch):
        names = [c.name for c in batch]
        if "[Serial]" in names[0]:
            assert running == ["a", "b", "c", "d"]
        else:
            both.wait()  # passes only when two batches run at the same time
            running.extend(names)
            running.sort()
        return outcome(batch)

    cases = [case("z [Serial]"), *map(case, "abcd"), case("y [Serial]")]
    run(cases, plan, execute, print)

    assert set(plan.store.read()) == {c.name for c in cases}


def test_cases_that_are_lost_together_are_run_once_more_each_alone(plan):
    tried = []

    def execute(batch):
        names = [c.name for c in batch]
        tried.append(names)
        return outcome(batch, LOST if "a" in names else PASSED)

    run([case("a"), case("b")], plan, execute, print)

    assert tried == [["a", "b"], ["a"], ["b"]]
    assert {name: r.state for name, r in plan.store.read().items()} == {"a": LOST, "b": PASSED}


def test_what_a_failed_case_printed_is_kept_until_it_passes(plan):
    run([case("a")], plan, lambda batch: outcome(batch, FAILED), print)
    log = plan.logs / "a.log"
    assert log.read_text() == "a\nwhat it printed\n"

    plan.store.forget(["a"])
    run([case("a")], plan, outcome, print)
    assert not log.exists()


def test_a_fault_of_the_harness_ends_the_run(plan):
    def execute(batch):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        run([case("a"), case("b")], plan, execute, print)


def test_results_report_what_they_are_of_and_which_are_of_a_second_try(plan):
    plan = replace(plan, commit="abc", again=frozenset({"b"}))

    run([case("a"), case("b")], plan, outcome, print)

    kept = plan.store.read()
    assert {name: (r.commit, r.is_again) for name, r in kept.items()} == {
        "a": ("abc", False),
        "b": ("abc", True),
    }
