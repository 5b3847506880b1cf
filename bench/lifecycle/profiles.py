"""Table of the loads by name, with the ways that each compares.

Owns the table. A profile gives runs by the name of their way. The compared ways run beside each
other in one process, in turn forwards and backwards.
"""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Mapping

from bench.lifecycle import changes, paths, runs
from bench.lifecycle.pod_figures import LifeFigures
from bench.lifecycle.runs import BURST, STORM, PodRate
from bench.lifecycle.stage import BenchContext
from bench.reports import report

ProfileRuns = dict[str, list[LifeFigures]]
Profile = Callable[[BenchContext, argparse.Namespace], Awaitable[ProfileRuns]]


async def _pairs(
    arena: BenchContext, asked: argparse.Namespace, count: int, pace: PodRate
) -> ProfileRuns:
    """Run all ways next to each other, several times."""
    wanted = paths.named(asked.ways)
    by_wire = await paths.scripts(arena) if paths.REPLAY in dict(wanted).values() else {}
    found: ProfileRuns = {name: [] for name, _ in wanted}
    for pair in range(asked.pairs):
        for name, way in wanted if pair % 2 == 0 else wanted[::-1]:
            before = os.getloadavg()[0]
            figures = await runs.run(arena, way, count, pace, by_wire)
            found[name].append(figures | {"load_before": before})
            sys.stderr.write(f"pair {pair + 1}: {report.line(name, figures)}\n")
    return found


async def _burst(arena: BenchContext, asked: argparse.Namespace) -> ProfileRuns:
    return await _pairs(arena, asked, asked.pods, BURST)


async def _delete_storm(arena: BenchContext, asked: argparse.Namespace) -> ProfileRuns:
    return await _pairs(arena, asked, asked.pods, STORM)


async def _steady(arena: BenchContext, asked: argparse.Namespace) -> ProfileRuns:
    pace = PodRate(per_second=asked.rate, tenants=asked.on)
    return await _pairs(arena, asked, int(asked.rate * asked.seconds), pace)


async def _churn(arena: BenchContext, asked: argparse.Namespace) -> ProfileRuns:
    pace = PodRate(per_second=asked.rate, life=asked.life, tenants=asked.on)
    return await _pairs(arena, asked, int(asked.rate * asked.seconds), pace)


async def _updates(arena: BenchContext, asked: argparse.Namespace) -> ProfileRuns:
    return await _repeated(
        asked, lambda: changes.updates(arena, asked.objects, asked.rate, asked.seconds)
    )


async def _statuses(arena: BenchContext, asked: argparse.Namespace) -> ProfileRuns:
    return await _repeated(
        asked, lambda: changes.statuses(arena, asked.objects, asked.rate, asked.seconds)
    )


async def _repeated(
    asked: argparse.Namespace, measure: Callable[[], Awaitable[LifeFigures]]
) -> ProfileRuns:
    return {paths.SYNCER: [await measure() for _ in range(asked.pairs)]}


PROFILES: Mapping[str, tuple[Profile, str]] = {
    "burst": (_burst, "--pods at once over all tenants, then all deleted"),
    "storm": (_delete_storm, "the same, deleted by 64 at a time"),
    "steady": (_steady, "--rate pods a second for --seconds on --on tenants"),
    "churn": (_churn, "the same, each pod deleted --life seconds later"),
    "updates": (_updates, "--objects ConfigMaps and Secrets changed at --rate for --seconds"),
    "statuses": (_statuses, "--objects pods' statuses changed below at --rate for --seconds"),
}


def explained() -> str:
    """Return the profiles as lines of a help text."""
    return "\n".join(f"  {name:10}{text}" for name, (_, text) in PROFILES.items())


async def run(arena: BenchContext, name: str, asked: argparse.Namespace) -> ProfileRuns:
    """Run a profile."""
    profile, _ = PROFILES[name]
    return await profile(arena, asked)
