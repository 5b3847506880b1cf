"""`python -m tests.chaos.processes DRILL --count N --seed S`: break something on real API servers.

    kill | restart | proxy | restore | away | clock | lease | follow | target

Prints each turn and, at the end, what was tried, failed and skipped, the seeds, and the machine.
A seed and a turn's number make the same script again (`--first NUMBER --count 1`). In which order
real servers then do things is theirs. `--mutant NAME` breaks the syncer on purpose, in a way of
`tests.chaos.processes.broken`. A drill that does not find it proves nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.processes import broken
from tests.chaos.processes.drills import NAMES, DrillOptions
from tests.chaos.processes.run import run
from tests.chaos.processes.stage import CALM_SECONDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a drill. Return 0 if no turn found a fault, within the time that was given."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.processes")
    add = parser.add_argument
    add("drill", choices=NAMES)
    add("--count", type=int, default=10, help="turns")
    add("--seed", type=int, default=None, help="else a random one")
    add("--first", type=int, default=0, help="number of the first turn")
    add("--minutes", type=float, default=0.0, help="begin no turn after so many")
    add("--seconds", type=float, default=600.0, help="of an outage, for `away` and `target`")
    add("--calm", type=float, default=CALM_SECONDS, help="seconds until all must be in step")
    add("--mutant", default="", choices=["", *broken.NAMES], help="break the syncer on purpose")
    add("--folder", type=Path, default=None, help="keep files and logs here")
    asked = parser.parse_args(arguments)
    seed = secrets.randbits(31) if asked.seed is None else asked.seed
    options = DrillOptions(
        count=asked.count,
        seed=seed,
        first=asked.first,
        minutes=asked.minutes,
        seconds=asked.seconds,
        calm_seconds=asked.calm,
        mutant=asked.mutant,
    )
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="drill-"))
    report = asyncio.run(run(asked.drill, options, folder.resolve(), say=_say))
    print(report)
    if report.failed:
        print(f"files and logs: {folder}")
    elif asked.folder is None:
        shutil.rmtree(folder)
    return 1 if report.failed or not report.tried else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
