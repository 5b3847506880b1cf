"""Every measurement that needs no installed cluster, one after the other, on a quiet machine.

    python -m bench.everything [--minutes 25] [--only WORD ...] [--small]

What is most wanted comes first. No step is begun that would not be over in time, and one that takes
longer than the time is ended; what was left out is told, and `--only` runs it. Each program writes
its JSON and picture to `bench/results/`. `--small` runs all in miniature, to see that they work:
its figures say nothing, and go to a folder of their own. Provisioning, rest and the node agent need
an installed cluster and are in `make bench`.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.rig import RESULTS, ROOT

_PATIENCE = 30.0
"""Seconds in which a program that is ended stops what it has started."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One program with its options."""

    name: str
    module: str
    words: str
    small: str
    """The options in miniature."""
    seconds: float
    """What it should take on a quiet machine with two cores, by what its parts took before."""

    def command(self, *, small: bool) -> list[str]:
        """Return what to run."""
        return [sys.executable, "-m", self.module, *(self.small if small else self.words).split()]


_SMALL = "--tenants 2 --pods 10 --nodes 2 --pairs 1 --rate 5 --seconds 3 --life 1 --objects 4"
STEPS = (
    Step(
        name="burst",
        module="bench.pods",
        words="--profile burst --tenants 10 --pods 1000 --pairs 3",
        small=f"--profile burst {_SMALL}",
        seconds=360,
    ),
    Step(
        name="calm",
        module="bench.pods",
        words="--profile steady --tenants 1 --on 1 --rate 10 --seconds 15 --pairs 1",
        small=f"--profile steady {_SMALL}",
        seconds=120,
    ),
    Step(
        name="held",
        module="bench.memory_api",
        words="--profile held --tenants 100 --pods 10000 --seconds 30",
        small="--profile held --tenants 2 --pods 20 --rest 1 --seconds 2",
        seconds=270,
    ),
    Step(
        name="fairness",
        module="bench.memory_api",
        words="--profile fairness --tenants 50",
        small="--profile fairness --tenants 3 --greedy 1 --regular 2 --greedy-pods 10"
        " --regular-pods 2",
        seconds=75,
    ),
    Step(
        name="lives",
        module="bench.memory_api",
        words="--profile burst --tenants 4 --pods 1000 --repeat 3",
        small="--profile burst --tenants 2 --pods 20 --repeat 2",
        seconds=75,
    ),
    Step(
        name="hand-over",
        module="bench.hand_over",
        words="--count 3",
        small="--count 1",
        seconds=100,
    ),
    Step(
        name="loads",
        module="bench.pods",
        words="--profile steady,churn,storm,updates,statuses --tenants 10 --pods 300 --pairs 1"
        " --rate 100 --seconds 6 --objects 100 --label 100",
        small=f"--profile steady,churn,storm,updates,statuses --label 100 {_SMALL}",
        seconds=240,
    ),
    Step(
        name="real",
        module="bench.pods",
        words="--profile burst --shape real --tenants 5 --pods 200 --pairs 1",
        small=f"--profile burst --shape real {_SMALL}",
        seconds=120,
    ),
    Step(
        name="late",
        module="bench.memory_api",
        words="--profile steady --shape real --tenants 20 --pods 200 --rate 20 --inside",
        small="--profile steady --shape real --tenants 2 --pods 10 --rate 5 --inside",
        seconds=60,
    ),
    Step(
        name="idle",
        module="bench.memory_api",
        words="--profile idle --tenants 30 --seconds 30",
        small="--profile idle --tenants 2 --rest 1 --seconds 2",
        seconds=75,
    ),
)


def run(steps: Sequence[Step], *, minutes: float, small: bool, into: Path) -> dict[str, str]:
    """Run steps until the time is over; return what became of each that did not end well."""
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
    """Run a program to its end; return what went wrong, empty when nothing did."""
    # Who runs in the background ignores interrupts, and so would what it starts.
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
    """Run what is asked for; 1 when anything was left out or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=25.0, help="all together")
    add("--only", nargs="+", metavar="WORD", choices=[step.name for step in STEPS])
    add("--small", action="store_true", help="in miniature, to see that everything works")
    asked = parser.parse_args()
    steps = [step for step in STEPS if not asked.only or step.name in asked.only]
    into = RESULTS
    if asked.small and "BENCH_RESULTS" not in os.environ:
        into = Path(tempfile.mkdtemp(prefix="bench-small-"))
    found = run(steps, minutes=asked.minutes, small=asked.small, into=into)
    print(f"{len(steps) - len(found)} of {len(steps)} done; results in {into}")
    for name, told in found.items():
        print(f"  {name}: {told}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
