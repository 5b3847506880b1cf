"""All measurements that need no installed cluster, one after the other, on a quiet machine.

    python -m bench.everything [--minutes 60] [--only WORD ...] [--go-on] [--small]

Measurements with a goal have five runs, or pairs, if a run is short, and three if it takes minutes
(`held`, `fairness`, `late`, `idle`). Loads without a goal have one. All take 59 min, by the
durations of earlier runs. The most important ones come first. A step that would not end in time is
not started, and a step that takes too long is ended. The omitted steps are printed, and `--only`
runs them. `--go-on` skips steps with a report of this commit and of as many runs. Each program
writes its JSON and picture to `bench/results/`. `--small` runs all in miniature to check that they
work. Its figures mean nothing and go to a folder of their own. Provisioning, rest and the node
agent need an installed cluster and are in `make bench`. `bench.verbs` and `bench.pages` are run by
hand, because the hour has no room for them.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.programs import image_python
from bench.programs.super_cluster import RESULTS, ROOT

MINUTES = 60
"""All steps together, on a quiet machine with two cores."""
_PATIENCE = 30.0
"""Seconds in which a program that is ended stops what it has started."""


@dataclass(frozen=True, kw_only=True)
class BenchStep:
    """One program with its options."""

    name: str
    module: str
    words: str
    small: str
    """The options in miniature."""
    seconds: float
    """Expected seconds on a quiet machine with two cores, from earlier times of its parts."""
    reports: tuple[str, ...] = ()
    """Its reports, except in miniature."""
    runs: int = 1
    """How many runs, or pairs, each of these has."""

    def command(self, *, small: bool) -> list[str]:
        """Return what to run."""
        return [sys.executable, "-m", self.module, *(self.small if small else self.words).split()]

    def is_finished(self, folder: Path, commit: str) -> bool:
        """Return whether all its reports exist for a commit. False without a commit."""
        paths = [folder / f"{name}.json" for name in self.reports]
        return bool(paths and commit) and all(
            path.exists() and _is_of(json.loads(path.read_text()), commit, self.runs)
            for path in paths
        )


def _is_of(report: Mapping[str, Any], commit: str, runs: int) -> bool:
    counts = map(len, report.get("runs", {}).values())
    return report.get("commit") == commit and max(counts, default=0) >= runs


_SMALL = "--tenants 2 --pods 10 --nodes 2 --pairs 1 --rate 5 --seconds 3 --life 1 --objects 4"
STEPS = (
    BenchStep(
        name="burst",
        module="bench.pods",
        words="--profile burst --tenants 10 --pods 1000 --pairs 5"
        " --ways direct,direct,replay,syncer",
        small=f"--profile burst {_SMALL} --ways direct,direct,replay,syncer",
        seconds=640,
        reports=("pods-burst-bare",),
        runs=5,
    ),
    BenchStep(
        name="calm",
        module="bench.pods",
        words="--profile steady --tenants 1 --on 1 --rate 10 --seconds 15 --pairs 5"
        " --ways direct,syncer",
        small=f"--profile steady {_SMALL} --ways direct,syncer",
        seconds=320,
        reports=("pods-steady-bare",),
        runs=5,
    ),
    BenchStep(
        name="lives",
        module="bench.memory_api",
        words="--profile burst --tenants 4 --pods 1000 --repeat 5",
        small="--profile burst --tenants 2 --pods 20 --repeat 2",
        seconds=125,
        reports=("memory-burst-bare-4x1000",),
        runs=5,
    ),
    BenchStep(
        name="held",
        module="bench.memory_api",
        words="--profile held --tenants 100 --pods 10000 --seconds 30 --repeat 3",
        small="--profile held --tenants 2 --pods 20 --rest 1 --seconds 2 --churn-life 1",
        seconds=900,
        reports=("memory-held-bare-100x10000",),
        runs=3,
    ),
    BenchStep(
        name="fairness",
        module="bench.memory_api",
        words="--profile fairness --tenants 50 --repeat 3",
        small="--profile fairness --tenants 3 --greedy 1 --regular 2 --greedy-pods 10"
        " --regular-pods 2",
        seconds=285,
        reports=("memory-fairness-bare-50x200",),
        runs=3,
    ),
    BenchStep(
        name="hand-over",
        module="bench.hand_over",
        words="--count 5",
        small="--count 1",
        seconds=160,
        reports=("hand-over",),
        runs=5,
    ),
    BenchStep(
        name="hand-over-manager",
        module="bench.hand_over",
        words="--count 5 --component manager",
        small="--count 1 --component manager",
        seconds=120,
        reports=("hand-over-manager",),
        runs=5,
    ),
    BenchStep(
        name="late",
        module="bench.memory_api",
        words="--profile steady --shape real --tenants 20 --pods 200 --rate 20 --inside --repeat 3",
        small="--profile steady --shape real --tenants 2 --pods 10 --rate 5 --inside",
        seconds=165,
        reports=("memory-steady-real-20x200-inside",),
        runs=3,
    ),
    BenchStep(
        name="idle",
        module="bench.memory_api",
        words="--profile idle --shape real --tenants 30 --rest 60 --seconds 60"
        " --token-seconds 180 --repeat 3",
        small="--profile idle --shape real --tenants 2 --rest 1 --seconds 2",
        seconds=420,
        reports=("memory-idle-real-30x200",),
        runs=3,
    ),
    BenchStep(
        name="audit",
        module="bench.pods",
        words="--profile burst --tenants 4 --pods 400 --pairs 1 --ways syncer --audit",
        small=f"--profile burst {_SMALL} --ways syncer --audit",
        seconds=60,
        reports=("pods-burst-bare-audit",),
    ),
    BenchStep(
        name="loads",
        module="bench.pods",
        words="--profile steady,churn,storm,updates,statuses --tenants 10 --pods 300 --pairs 1"
        " --rate 100 --seconds 6 --objects 100 --label 100",
        small=f"--profile steady,churn,storm,updates,statuses --label 100 {_SMALL}",
        seconds=210,
        reports=tuple(
            f"pods-{name}-bare-100" for name in ("steady", "churn", "storm", "updates", "statuses")
        ),
    ),
    BenchStep(
        name="real",
        module="bench.pods",
        words="--profile burst --shape real --tenants 5 --pods 200 --pairs 1",
        small=f"--profile burst --shape real {_SMALL}",
        seconds=90,
        reports=("pods-burst-real",),
    ),
)


def run(steps: Sequence[BenchStep], *, minutes: float, small: bool, into: Path) -> dict[str, str]:
    """Run steps until the time is over. Returns the results of those that failed."""
    ends = time.monotonic() + 60 * minutes
    found: dict[str, str] = {}
    for step in steps:
        left = ends - time.monotonic()
        if left < (0 if small else step.seconds):
            found[step.name] = "left out: the time is over"
            continue
        began = time.monotonic()
        print(f"== {step.name}: {' '.join(step.command(small=small)[1:])}", flush=True)
        told = _ended(step.command(small=small), left, {"BENCH_RESULTS": str(into)})
        if told:
            found[step.name] = told
        print(
            f"== {step.name}: {told or 'done'} after {time.monotonic() - began:.0f} s", flush=True
        )
    return found


def _ended(command: Sequence[str], seconds: float, env: Mapping[str, str]) -> str:
    """Run a program to its end. Returns the error, empty without one."""
    # A process in the background ignores interrupts, and so would its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env})
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it ends what it has started
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            return f"ended, as it took more than {seconds:.0f} s"
    return f"failed with {code}" if code else ""


def main() -> int:
    """Run the requested steps. Returns 1 if a step was left out or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=float(MINUTES), help="all together")
    add("--only", nargs="+", metavar="WORD", choices=[step.name for step in STEPS])
    add("--go-on", action="store_true", help="without the steps that are finished")
    add("--small", action="store_true", help="in miniature, to see that everything works")
    asked = parser.parse_args()
    steps = [step for step in STEPS if not asked.only or step.name in asked.only]
    into = RESULTS
    if asked.small and "BENCH_RESULTS" not in os.environ:
        into = Path(tempfile.mkdtemp(prefix="bench-small-"))
    if asked.go_on:
        commit = image_python.commit()
        steps = [step for step in steps if not step.is_finished(into, commit)]
    image_python.make()
    found = run(steps, minutes=asked.minutes, small=asked.small, into=into)
    print(f"{len(steps) - len(found)} of {len(steps)} done, results in {into}")
    for name, told in found.items():
        print(f"  {name}: {told}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
