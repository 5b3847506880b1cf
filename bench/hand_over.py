"""Time until another replica takes over from a killed syncer or manager, on real API servers.

    python -m bench.hand_over --count 5
    python -m bench.hand_over --count 5 --component manager

Kills the replica with the Lease (SIGKILL) while it has work. The result is the time to the first
accepted write of the other replica, by the audit logs. The syncer's work is the drill `follow` of
`tests.chaos.processes`: tenants create, change and delete, and the drill also checks whether
anything was lost. The manager's work are new tenants, and no object may be created twice. Prints
the figure, and writes JSON to `bench/results/hand-over.json` or `hand-over-manager.json`.
"""

import argparse
import asyncio
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.programs import image_python, manager_pairs, super_cluster
from bench.reports.statistics import spread
from tests.chaos.processes.drills import DrillOptions
from tests.chaos.processes.run import GOAL, run

REPORTS = {"syncer": "hand-over", "manager": "hand-over-manager"}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--component", choices=sorted(REPORTS), default="syncer")
    parser.add_argument("--count", type=int, default=5, help="how often the holder is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the tenants' changes")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write. Return 1 if an object was lost or created twice, or without a
    successor.
    """
    asked = arguments()
    about = {
        "noise": super_cluster.noise(),
        **image_python.machine(),
        "python": image_python.here(),
    }
    measure = _managers if asked.component == "manager" else _syncers
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        runs = measure(Path(name), asked)
    seconds = [float(each["hand_over_s"]) for each in runs]
    found = spread(seconds)
    if not runs or any(map(math.isnan, seconds)):
        return 1
    print(f"{asked.component}: {found.median:.1f} s, {found.low:.1f} to {found.high:.1f}")
    results = {**about, "asked": vars(asked), "goal_s": GOAL}
    results |= {"spread": found.as_dict(), "runs": {asked.component: runs}}
    super_cluster.write(REPORTS[asked.component], results)
    return 1 if any(each.get("made_twice") for each in runs) else 0


def _syncers(folder: Path, asked: argparse.Namespace) -> list[dict[str, Any]]:
    options = DrillOptions(count=asked.count, seed=asked.seed)
    report = asyncio.run(run("follow", options, folder, _say))
    print(report)
    return [] if report.failed else [{"hand_over_s": each} for each in report.hand_overs]


def _managers(folder: Path, asked: argparse.Namespace) -> list[dict[str, Any]]:
    return [dict(each) for each in manager_pairs.measure(folder, asked.count, _say)]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
