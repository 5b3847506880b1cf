"""How long a syncer that vanishes is not followed, on real API servers.

    python -m bench.hand_over --count 5

Of two replicas the one that has the Lease is killed (SIGKILL) while tenants make, change and
delete; what counts is the time to the first accepted write of the other, by the audit logs. It is
the drill `follow` of `tests.drills`, which also looks whether anything was lost. Prints the figure;
writes JSON to `bench/results/hand-over.json`.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from bench import rig, shipped
from bench.figures import spread
from tests.drills.drills import Options
from tests.drills.run import GOAL, run


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=5, help="how often the holder is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the tenants' changes")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write."""
    asked = arguments()
    noise = rig.noise()
    options = Options(count=asked.count, seed=asked.seed)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        report = asyncio.run(run("follow", options, Path(name), _say))
    print(report)
    if report.failed or not report.hand_overs:
        return 1
    runs = [{"hand_over_s": seconds} for seconds in report.hand_overs]
    found = spread(report.hand_overs)
    results = {"noise": noise, **shipped.machine(), "asked": vars(asked), "goal_s": GOAL}
    rig.write("hand-over", results | {"spread": found.as_dict(), "runs": {"syncer": runs}})
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
