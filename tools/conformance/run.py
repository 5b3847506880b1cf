"""A run of many cases: several batches side by side, then the serial cases alone.

A case with a result is not run again, so an ended run continues where it stopped.

Hazard: PDEATHSIG applies to the thread that started a child. Workers must therefore live as long as
the run.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.conformance import suite
from tools.conformance.cases import ConformanceCase, batches
from tools.conformance.results import LOST, PASSED, CaseResult, ResultStore
from tools.conformance.suite import BatchOutcome

PrintFunction = Callable[[str], None]
ExecuteFunction = Callable[[Sequence[ConformanceCase]], BatchOutcome]


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """How a run goes: where its results are and how many batches of which size run at once."""

    store: ResultStore
    logs: Path
    """Folder that gets a file for each case that did not pass."""
    workers: int
    size: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of cases in an earlier run, by name."""
    commit: str = ""
    """Commit of the tested code."""
    again: frozenset[str] = frozenset()
    """Names of cases that are tried once more."""

    def stamped(self, result: CaseResult) -> CaseResult:
        """Return a result with what it is a result of."""
        return replace(result, commit=self.commit, is_again=result.case in self.again)


def executor(minor: str, kubeconfig: Path, environment: Mapping[str, str]) -> ExecuteFunction:
    """How a batch of a minor's suite is run on one cluster."""
    return lambda batch: suite.execute(batch, minor, kubeconfig, environment)


def run(
    cases: Sequence[ConformanceCase], plan: RunPlan, execute: ExecuteFunction, say: PrintFunction
) -> None:
    """Run the cases that have no result yet."""
    before = plan.store.read()
    known = before.keys() - plan.again
    open_cases = [case for case in cases if case.name not in known]
    if len(open_cases) < len(cases):
        say(f"{len(cases) - len(open_cases)} of {len(cases)} cases have a result already")
    counter = _CaseCounter(len(open_cases), say)
    beside = batches([c for c in open_cases if not c.is_serial], plan.size, plan.seconds)
    alone = batches([c for c in open_cases if c.is_serial], plan.size, plan.seconds)
    _work(beside, plan, execute, counter, plan.workers)
    _work(alone, plan, execute, counter, 1)


def _work(
    waiting: Sequence[Sequence[ConformanceCase]],
    plan: RunPlan,
    execute: ExecuteFunction,
    counter: _CaseCounter,
    workers: int,
) -> None:
    todo: queue.SimpleQueue[Sequence[ConformanceCase]] = queue.SimpleQueue()
    for batch in waiting:
        todo.put(batch)
    faults: list[BaseException] = []

    def worker() -> None:
        while not faults:
            try:
                batch = todo.get_nowait()
            except queue.Empty:
                return
            try:
                _batch(batch, plan, execute, counter)
            except BaseException as fault:  # noqa: BLE001 raised again by the caller
                faults.append(fault)

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def _batch(
    batch: Sequence[ConformanceCase], plan: RunPlan, execute: ExecuteFunction, counter: _CaseCounter
) -> None:
    outcome = execute(batch)
    lost = [case for case in batch if outcome.results[case.name].state == LOST]
    if lost and len(batch) > 1:  # one case may take the whole program with it: each gets its own
        done = [r for r in outcome.results.values() if r.state != LOST]
        _keep(done, outcome, plan, counter)
        for case in lost:
            again = execute([case])
            _keep(list(again.results.values()), again, plan, counter)
        return
    _keep([outcome.results[case.name] for case in batch], outcome, plan, counter)


def _keep(
    results: Sequence[CaseResult], outcome: BatchOutcome, plan: RunPlan, counter: _CaseCounter
) -> None:
    for result in results:
        log = plan.logs / f"{ConformanceCase(result.case, '').slug}.log"
        if result.state == PASSED:
            log.unlink(missing_ok=True)
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"{result.case}\n{outcome.printed.get(result.case, result.message)}\n")
    plan.store.add(map(plan.stamped, results))
    for result in results:
        counter.count(result)


class _CaseCounter:
    """Printer of one line per case: its result, its duration, and the number of finished cases."""

    def __init__(self, total: int, say: PrintFunction) -> None:
        self._total = total
        self._done = 0
        self._failed = 0
        self._say = say
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def count(self, result: CaseResult) -> None:
        with self._lock:
            self._done += 1
            self._failed += result.state != PASSED
            minutes = (time.monotonic() - self._started) / 60
            self._say(
                f"{self._done:4}/{self._total} {self._failed:3} not passed {minutes:5.1f} min  "
                f"{result.state:7} {result.seconds:6.1f} s  {result.case}"
            )
