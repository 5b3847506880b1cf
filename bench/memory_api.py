"""Cost of the syncer alone, against clusters in memory that do not use its processor time.

    python -m bench.memory_api --tenants 4 --pods 200
    python -m bench.memory_api --tenants 100 --pods 10000 --profile all --repeat 3

Starts everything on loopback and ends it. Prints a table, with several runs the median, the lowest
and the highest figures. Writes JSON and plots to `bench/results/`. The clusters bind and run pods
by themselves. `tests.support.memapi` lists what they leave out.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from bench.memory import profiles
from bench.memory import stage as memory_stage
from bench.programs import image_python, super_cluster
from bench.programs.syncers import INSIDE, OURS, SyncerLauncher
from bench.reports import plots, report
from tests.support.load_shapes import SHAPES


async def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure the profiles `repeat` times, each time with new processes."""
    results: dict[str, Any] = {"noise": super_cluster.noise(), **image_python.machine()}
    runs: dict[str, list[dict[str, Any]]] = {}
    for number in range(asked.repeat):
        for profile, found in (await _once(asked)).items():
            runs.setdefault(profile, []).extend(found)
        if asked.repeat > 1:
            sys.stderr.write(f"{number + 1} of {asked.repeat} done\n")
    return results | {"runs": runs}


async def _once(asked: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Set everything up, measure the profiles, and take it down."""
    syncer = SyncerLauncher(command=INSIDE if asked.inside else asked.syncer, pid_file=asked.pid)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        async with memory_stage.running(
            folder,
            tenants=asked.tenants,
            shape=asked.shape,
            step=asked.step_ms / 1e3,
            events=asked.events,
            echo_first=asked.echo_first,
            token_seconds=asked.token_seconds,
        ) as stage:
            try:
                return await profiles.run(stage, syncer, asked)
            except BaseException:
                log = folder / "syncer.log"
                if log.exists():
                    sys.stderr.write(log.read_text(errors="replace")[-3000:])
                raise


def _profiles(text: str) -> list[str]:
    """Read a list of profiles."""
    found = list(profiles.PROFILES) if text == "all" else text.split(",")
    for name in found:
        if name not in profiles.PROFILES:
            raise argparse.ArgumentTypeError(f"there is no profile {name!r}. See --help")
    return found


def _some(text: str) -> int:
    """Read how often, at least once."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} times is not at all")
    return int(text)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nprofiles (or `all`):\n{profiles.explained()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--profile", default=["burst"], type=_profiles, metavar="NAME[,NAME...]")
    add("--shape", default="bare", choices=sorted(SHAPES))
    add("--tenants", type=int, default=4)
    add("--pods", type=int, default=200, help="of all tenants together")
    add("--repeat", type=_some, default=1, help="how often everything is started and measured")
    add("--rounds", type=int, default=1, help="how often a burst runs")
    add("--rate", type=float, default=0.0, help="pods per second (0: no limit)")
    add("--step-ms", type=float, default=5.0, help="between two steps of a pod's life below")
    add("--no-events", dest="events", action="store_false", help="without the Event Scheduled")
    add("--cold", action="store_true", help="no node is shown before a burst")
    add(
        "--echo-first",
        type=float,
        default=0.0,
        help="share of writes with a watch event before the answer",
    )
    add("--rest", type=float, default=20.0, help="seconds of rest before idle and restart")
    add("--seconds", type=float, default=60.0, help="how long idle is watched")
    add("--idle-pods", type=int, default=3, help="of each tenant, while idle is watched")
    add("--beat", type=float, default=10.0, help="seconds between two beats of an idle node")
    add("--churn-rate", type=float, default=10.0, help="pods per second when it is killed")
    add("--churn-life", type=float, default=5.0, help="seconds of each of them")
    add("--greedy", type=int, default=10, help="greedy tenants of `fairness` (the last ones)")
    add("--greedy-pods", type=int, default=900, help="of each")
    add("--greedy-rate", type=float, default=0.0, help="of all of them (0: no limit)")
    add("--regular", type=int, default=40, help="regular tenants of `fairness` (the first ones)")
    add("--regular-pods", type=int, default=10, help="of each")
    add("--regular-rate", type=float, default=60.0, help="their pods per second together")
    add("--hostile-rate", type=float, default=200.0, help="acts per second of `hostile`")
    add("--calm-rate", type=float, default=20.0, help="pods per second during the resync")
    add("--storm-rate", type=float, default=500.0, help="statuses of greedy pods per second")
    add("--token-seconds", type=float, default=0.0, help="lifetime of a token (0: as requested)")
    add(
        "--syncer",
        default=OURS,
        help="command of the syncer to measure (see bench/programs/syncers.py)",
    )
    add("--pid", type=Path, help="file into which that command writes the process to measure")
    add("--inside", action="store_true", help="ours with a ticker and a sampler (not for speed)")
    asked = parser.parse_args()
    needed = asked.greedy + asked.regular
    if "fairness" in asked.profile and asked.tenants < needed:
        parser.error(f"fairness needs --tenants {needed}: the greedy and the regular ones")
    if "hostile" in asked.profile and asked.tenants < 2:
        parser.error("hostile needs --tenants 2: the hostile one, and one beside it")
    return asked


def main() -> int:
    """Measure, print, write."""
    asked = arguments()
    results = uvloop.run(measure(asked))
    shown = {key: value for key, value in vars(asked).items() if key != "profile"}
    shown["pid"] = str(asked.pid or "")
    results["asked"] = shown | {"profile": "+".join(asked.profile)}
    sys.stdout.write(report.table(results) + "\n")
    inside = ["inside"] if asked.inside else []
    word = "all" if len(asked.profile) == len(profiles.PROFILES) else "-".join(asked.profile)
    size = f"{asked.tenants}x{asked.pods}"
    name = "-".join(["memory", word, asked.shape, size, *inside])
    super_cluster.write(name, results)
    plots.write(name, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
