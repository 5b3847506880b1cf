"""Pods' lives through a syncer, beside the same directly in the super cluster, and a ceiling.

    python -m bench.pods --profile burst --tenants 10 --pods 1000 --pairs 5

Starts everything on loopback and ends it. Prints a table, and writes JSON and plots to
`bench/results/`. Compare ratios: absolute figures are of one machine at one time.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from bench.lifecycle import clusters, observations, paths, profiles
from bench.lifecycle import stage as arena
from bench.programs import image_python, super_cluster
from bench.programs.syncers import INSIDE, OURS, SyncerLauncher
from bench.reports import plots, report
from tests.support.load_shapes import SHAPES

_SEEN = ("Pod", "ConfigMap", "Secret")


async def measure(asked: argparse.Namespace) -> None:
    """Set everything up, measure one profile after the other, and take it down."""
    about = {"noise": super_cluster.noise(), **image_python.machine()}
    syncer = SyncerLauncher(command=INSIDE if asked.inside else asked.syncer, pid_file=asked.pid)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        async with (
            clusters.running(
                folder,
                tenants=asked.tenants,
                shape=SHAPES[asked.shape],
                node_count=asked.nodes,
                audit=asked.audit,
                gate=asked.authorizer,
                scheduler=asked.scheduler,
                gogc=asked.gogc,
            ) as on,
            observations.observing(on.clusters(), _seen(asked.profile), folder) as observer,
            arena.opened(on, syncer, observer) as found,
        ):
            for profile in asked.profile:
                try:
                    runs = await profiles.run(found, profile, asked)
                except BaseException:
                    sys.stderr.write(arena.last_words(on))
                    raise
                _tell(profile, asked, {**about, "runs": runs})


def _tell(profile: str, asked: argparse.Namespace, results: dict[str, Any]) -> None:
    """Print a profile's table, and write its results and pictures."""
    shown = {key: str(value) if value is not None else "" for key, value in vars(asked).items()}
    results["asked"] = shown | {"profile": profile}
    sys.stdout.write(report.table(results) + "\n\n")
    sys.stdout.flush()
    words = [word for word in ("audit", "inside") if getattr(asked, word)]
    name = "-".join(["pods", profile, asked.shape, *words, *filter(None, [asked.label])])
    super_cluster.write(name, results)
    plots.write(name, results)


def _seen(names: list[str]) -> tuple[str, ...]:
    """Return the needed kinds to watch. Each further watch costs the servers time."""
    return _SEEN if "updates" in names else _SEEN[:1]


def _names(text: str) -> list[str]:
    """Read a list of profiles."""
    found = text.split(",")
    for name in found:
        if name not in profiles.PROFILES:
            raise argparse.ArgumentTypeError(f"there is no profile {name!r}. See --help")
    return found


def _ways(text: str) -> str:
    """Check a list of ways."""
    try:
        paths.named(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    return text


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nprofiles:\n{profiles.explained()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--profile", default=["burst"], type=_names, metavar="NAME[,NAME...]")
    add("--shape", default="bare", choices=sorted(SHAPES))
    add("--tenants", type=int, default=10)
    add("--pods", type=int, default=1000)
    add("--pairs", type=int, default=5, help="how often each way runs")
    add("--nodes", type=int, default=10)
    add("--rate", type=float, default=10.0, help="per second")
    add("--seconds", type=float, default=30.0)
    add("--life", type=float, default=5.0, help="seconds")
    add("--objects", type=int, default=100)
    add("--on", type=int, default=0, help="tenants that have pods (0: all)")
    add("--gogc", default="100", help="for etcd and API servers: more memory, less work")
    add(
        "--ways",
        default=",".join(paths.WAYS),
        type=_ways,
        help="which to run (twice for the noise)",
    )
    add(
        "--syncer",
        default=OURS,
        help="command of the syncer to measure (see bench/programs/syncers.py)",
    )
    add("--pid", type=Path, help="file into which that command writes the process to measure")
    add("--inside", action="store_true", help="ours with a ticker and a sampler (not for speed)")
    add("--label", default="", help="ends the names of the reports, beside others of a profile")
    add("--audit", action="store_true", help="count requests (not for speed)")
    add(
        "--no-scheduler",
        dest="scheduler",
        action="store_false",
        help="pods are bound without a thought",
    )
    add("--no-gate", dest="gate", action="store_false", help="without the chart's policies")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write."""
    uvloop.run(measure(arguments()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
