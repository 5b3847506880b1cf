"""The figures of the kept reports as tables in docs/performance.md.

    python -m bench.reports.tables            after measuring: write the tables
    python -m bench.reports.tables --check    check the tables against the reports in bench/results

Owns which figures have a goal, and what it is. The text around the tables is written by hand.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bench import agent, agent_steps, rollout
from bench.large_tenant import verdict
from bench.large_tenant.verdict import MAX_RATIO
from bench.memory.fairness import ENOUGH
from bench.programs.super_cluster import MIB, ROOT
from bench.reports import report
from bench.reports.report import FigureReader, at
from bench.reports.statistics import spread

PAGE = ROOT / "docs" / "performance.md"
KEPT = ROOT / "bench" / "results"
BEGIN = "<!-- Written by `python -m bench.reports.tables`. -->\n"
END = "<!-- As far as here. -->\n"

TableFigures = Mapping[str, Any]


@dataclass(frozen=True)
class GoalLine:
    """A figure with its goal, which is a maximum or a minimum. NaN: it has no goal."""

    title: str
    read: FigureReader
    goal: float = math.nan
    is_least: bool = False

    def verdict(self, figure: float) -> str:
        """Return the goal and whether a result keeps it. Empty without a goal."""
        if math.isnan(self.goal):
            return ""
        is_kept = figure >= self.goal if self.is_least else figure <= self.goal
        return f"{self.goal:g}: {'kept' if is_kept else 'missed'}"


_RATIOS = (
    GoalLine("pods/s", at("pods_per_s"), 0.5, is_least=True),
    GoalLine("Ready p50 ms", at("ready_ms", "p50"), 2.2),
    GoalLine("Ready p99 ms", at("ready_ms", "p99")),
    GoalLine("all deleted s", at("delete_s"), 1.6),
)
_CEILING = (
    GoalLine("the replay's pods/s to direct", at("pods_per_s"), 0.45, is_least=True),
    GoalLine("the syncer's pods/s to the replay", at("pods_per_s"), 0.9, is_least=True),
)
_ADDED = (
    GoalLine("Ready p50 ms", at("ready_ms", "p50"), 20),
    GoalLine("Ready p99 ms", at("ready_ms", "p99"), 60),
)
_AGAIN = (
    GoalLine("pods/s", at("pods_per_s")),
    GoalLine("Ready p50", at("ready_ms", "p50")),
    GoalLine("all deleted", at("delete_s")),
)
_STEADY_MACHINE = (0.9, 1.1)
"""Between which a way has to stay beside itself."""
_CPU = GoalLine("syncer CPU-s per 1,000 lives", at("cpu_s_per_1000", "syncer"), 1.0)


def _mb(*path: str) -> FigureReader:
    """Return what reads MiB as the MB of the goal."""
    read = at(*path)
    return lambda figures: read(figures) * MIB / 1e6


def _requests(verbs: Sequence[str], kind: str) -> FigureReader:
    """Return what reads the requests of some verbs for a kind, with its subresources."""

    def read(figures: TableFigures) -> float:
        each = (figures.get("calls") or {}).get("each")
        if each is None:
            return math.nan
        asked = (what.split(" ") for what in each)
        return sum(
            float(each[f"{side} {verb} {resource}"])
            for side, verb, resource in asked
            if verb in verbs and resource.partition("/")[0] == kind
        )

    return read


_WRITES = ("create", "update", "patch", "delete", "deletecollection")


def _repaired(figures: TableFigures) -> float:
    return max(float(each["longest"]) for each in figures["repaired_ms"].values()) / 1e3


_BURST = (
    _CPU,
    GoalLine("pods/s", at("pods_per_s")),
    GoalLine("Ready p50 ms", at("ready_ms", "p50")),
    GoalLine("Ready p99 ms", at("ready_ms", "p99")),
)
_IDLE = (
    GoalLine("% of a core at rest", at("idle_percent_of_core"), 1),
    GoalLine("tokens renewed meanwhile", at("tokens_renewed")),
    GoalLine("beats of nodes meanwhile and before", at("beats")),
    GoalLine("writes besides Leases and renewals", at("writes_besides"), 0),
)
_HELD = (
    GoalLine("pods/s, all tenants making them at once", at("pods_per_s")),
    GoalLine("RSS with all pods MB", _mb("memory_with", "rss_mib"), 300),
    GoalLine("RSS after a restart MB", _mb("restart", "memory", "rss_mib"), 300),
    GoalLine("kill -9 to the Lease s", at("restart", "lease_s")),
    GoalLine("Lease to in step s", at("restart", "in_step_s"), 5),
    GoalLine("kill -9 to in step s", at("restart", "kill_to_in_step_s"), 5),
    GoalLine("kill -9 to the first new pod Ready s", at("restart", "kill_to_first_new_pod_s")),
    GoalLine("processor seconds until in step", at("restart", "cpu_s")),
    GoalLine("bytes read until in step MiB", at("restart", "read_mib")),
    GoalLine("its writes beyond those of the churn's lives", at("restart", "writes_beyond"), 0),
    GoalLine("pods that came and went meanwhile", at("restart", "churned")),
    GoalLine("% of a core at rest", at("resting", "idle_percent_of_core")),
    GoalLine("a resync s", at("patrol", "round_s")),
    GoalLine("its CPU-s per 10,000 pods", at("patrol", "cpu_s_per_10000_pods"), 2),
    GoalLine("Ready p99 during it to outside", at("patrol", "p99_to_outside"), 1.1),
)
_OWN_WORST = at("inside", "own_late_ms", "worst")
_HAND_OVER = GoalLine("kill -9 to the other's write s", at("hand_over_s"), 10)


def _late(*kinds: str) -> Sequence[GoalLine]:
    """Return the sync delays of changes of some kinds."""
    quantiles = [
        GoalLine(f"{kind} late {part} ms", at("late_ms", kind, part))
        for kind in kinds
        for part in ("p50", "p99")
    ]
    whole = [("changes", "changes"), ("overtaken", "coalesced"), ("lost", "last_ones_missing")]
    return [*quantiles, *(GoalLine(title, at(key)) for title, key in whole)]


_LARGE = (
    GoalLine("neighbour's p99 before ms", at("before", "p99_ms")),
    GoalLine("its p99 while the other tenant grows, to before", at("ratios", "large"), MAX_RATIO),
    GoalLine("the same at later attempts to connect it", at("ratios", "attempts"), MAX_RATIO),
    GoalLine("the same while it grows, to an idle machine", at("ratios", "large_to_idle")),
    GoalLine("syncer, highest RSS MiB", at("memory_after", "peak_mib"), 512),
    GoalLine("policies that the API server refused", at("policies_refused"), 0),
    GoalLine("deleted to synced again s", at("recovered_seconds")),
)

_OF: Mapping[str, tuple[str, Sequence[GoalLine]]] = {
    "memory-burst-bare-4x1000": ("burst", _BURST),
    "memory-burst-bare-1x1000": ("burst", _BURST),
    "memory-burst-bare-100x1250": ("burst", _BURST),
    "memory-burst-bare-100x10000": ("burst", _BURST),
    "memory-held-bare-100x10000": ("held", _HELD),
    "memory-held-real-100x10000": ("held", _HELD),
    "memory-idle-real-30x200": ("idle", _IDLE),
    "memory-fairness-bare-50x200": (
        "fairness",
        (
            GoalLine("p99 beside the greedy to alone", at("p99_to_alone"), 2),
            GoalLine(
                "regular pods made beside the greedy", at("beside_pods"), ENOUGH, is_least=True
            ),
            GoalLine("Jain's index of the regular beside them", at("jain_beside")),
            GoalLine("Jain's index of the greedy", at("jain_greedy")),
            GoalLine("the greedy's time beside the regular to alone", at("greedy_s_to_alone")),
            GoalLine("p99 in a storm of statuses to alone", at("stormed_p99_to_alone"), 2),
            GoalLine("regular pods made in the storm", at("stormed_pods"), ENOUGH, is_least=True),
            GoalLine("Jain's index of the regular in the storm", at("jain_stormed")),
            GoalLine("changes of the storm", at("storm_changes")),
            GoalLine("writes upward for them", at("storm_writes")),
        ),
    ),
    "memory-steady-real-20x200-inside": (
        "steady",
        (
            GoalLine("loop late by our own work ms, worst", _OWN_WORST, 20),
            GoalLine("the same, p99.9", at("inside", "own_late_ms", "p999")),
            GoalLine("drift repaired s, worst", _repaired, 2),
            GoalLine("engine p50 ms", at("inside", "engine_ms", "p50"), 1),
            GoalLine("engine p99 ms", at("inside", "engine_ms", "p99"), 5),
        ),
    ),
    "pods-burst-bare-inside": (
        "syncer",
        (
            GoalLine("loop late by our own work in a burst ms, worst", _OWN_WORST, 20),
            GoalLine("the same, p99.9", at("inside", "own_late_ms", "p999")),
            GoalLine(
                "by the clock, as others have the cores, worst", at("inside", "late_ms", "worst")
            ),
        ),
    ),
    "hand-over": ("syncer", (_HAND_OVER,)),
    "hand-over-manager": (
        "manager",
        (_HAND_OVER, GoalLine("objects made twice", at("made_twice"), 0)),
    ),
    "pods-burst-bare-audit": (
        "syncer",
        (
            GoalLine("writes of pods per life", _requests(_WRITES, "pods"), 5),
            GoalLine("reads of a pod per life", _requests(("get",), "pods"), 0),
            GoalLine("lists of all pods per life", _requests(("list",), "pods")),
            GoalLine("writes of nodes per life", _requests(_WRITES, "nodes")),
            GoalLine("writes of Events per life", _requests(_WRITES, "events")),
        ),
    ),
    **dict.fromkeys(verdict.REPORTS.values(), ("large", _LARGE)),
    "pods-updates-bare-100": ("syncer", _late("ConfigMap", "Secret")),
    "pods-statuses-bare-100": ("syncer", _late("Pod")),
}
"""By report: the profile whose runs count, and what of them."""
_LOADS: Mapping[str, tuple[Sequence[str], Sequence[GoalLine]]] = {
    "pods-burst-real": (
        ("direct", "replay", "syncer"),
        (GoalLine("pods/s", at("pods_per_s")), GoalLine("Ready p50 ms", at("ready_ms", "p50"))),
    ),
    "pods-steady-bare-100": (
        ("direct", "replay", "syncer"),
        (GoalLine("pods/s", at("pods_per_s")),),
    ),
    # A replay's pods are deleted before its nodes have them Ready.
    "pods-churn-bare-100": (
        ("direct", "syncer"),
        (GoalLine("pods/s", at("pods_per_s")), GoalLine("pods seen Ready", at("pods"))),
    ),
    "pods-storm-bare-100": (
        ("direct", "replay", "syncer"),
        (GoalLine("pods/s", at("pods_per_s")), GoalLine("all deleted s", at("delete_s"))),
    ),
}
"""Loads without a goal, by report: which ways, and what of them."""
_ALONE = (
    GoalLine("a tenant alone: first request s", at("first_request_s"), 15),
    GoalLine("vc-manager's CPU-s for it", at("manager_cpu_s")),
)


def text(folder: Path) -> str:
    """Return the tables of all reports that there are."""
    parts: list[str] = []
    for name, make in _MAKERS.items():
        path = folder / f"{name}.json"
        if path.exists():
            results = json.loads(path.read_text())
            head = f"`{name}.json`{_runs(results)}{_noise(results)}{_others(results)}:"
            parts += [head, "", *make(results), ""]
    return "\n".join(parts)


def _runs(results: TableFigures) -> str:
    """Return the commit, the start and the number of runs, as far as the report has them."""
    found = results.get("runs", {})
    count = max((len(found[way]) for way in found), default=0) if found else 0
    of = f" of `{results['commit']}`, started {results['began']}" if "began" in results else ""
    times = {0: "", 1: ", one run"}.get(
        count, f", {count} {'pairs' if 'direct' in found else 'runs'}"
    )
    return f"{of}{times}. "


def _noise(results: TableFigures) -> str:
    noise = results["noise"].get("before", results["noise"])
    return (
        f"A fixed loop took {noise['median_ms']:.0f} ms (spread {noise['spread']:.0%}), the load"
        f" before was {noise['load_1min']:.1f}"
    )


def _others(results: TableFigures) -> str:
    """Return the cores that other programs used, the median of the runs that recorded it."""
    found = results.get("runs", {})
    cores = spread(at("foreign_cores")(each) for way in found for each in found[way])
    return f", other programs used {cores.median:.2f} cores" if cores.count else ""


def _ratios(results: TableFigures) -> Iterator[str]:
    runs = results["runs"]
    yield "| | direct | replay | syncer | syncer to direct | to the replay | goal to direct |"
    yield "|---|---|---|---|---|---|---|"
    over = {base: report.ratios_of(runs["syncer"], runs[base]) for base in ("direct", "replay")}
    for line in _RATIOS:
        each = [
            report.cell(spread(map(line.read, runs[way]))) for way in ("direct", "replay", "syncer")
        ]
        to = [over[base](line.read) for base in ("direct", "replay")]
        cells = [line.title, *each, *map(report.cell, to), line.verdict(to[0].median)]
        yield f"| {' | '.join(cells)} |"
    cpu = spread(map(_CPU.read, runs["syncer"]))
    yield f"| {_CPU.title} | | | {report.cell(cpu)} | | | {_CPU.verdict(cpu.median)} |"
    for line, (one, other) in zip(
        _CEILING, (("replay", "direct"), ("syncer", "replay")), strict=True
    ):
        ratio = report.ratios_of(runs[one], runs[other])(line.read)
        yield f"| {line.title} | | | | | {report.cell(ratio)} | {line.verdict(ratio.median)} |"


def _again(results: TableFigures) -> Iterator[str]:
    """Yield the ratios of ways that ran beside themselves, as a table about the machine."""
    runs = results["runs"]
    again = [way for way in runs if " " in way]
    if not again:
        return
    low, high = _STEADY_MACHINE
    yield from ("", "| beside itself | ratio | wanted |", "|---|---|---|")
    for way in again:
        (base,) = report.bases(way)
        for line in _AGAIN:
            ratio = report.ratios_of(runs[way], runs[base])(line.read)
            told = "kept" if low <= ratio.median <= high else "missed"
            cells = [f"{base}, {line.title}", report.cell(ratio), f"{low:g} to {high:g}: {told}"]
            yield f"| {' | '.join(cells)} |"


def _added(results: TableFigures) -> Iterator[str]:
    runs = results["runs"]
    yield "| | direct | syncer | later than direct | goal |"
    yield "|---|---|---|---|---|"
    for line in _ADDED:
        each = [report.cell(spread(map(line.read, runs[way]))) for way in ("direct", "syncer")]
        pairs = zip(runs["syncer"], runs["direct"], strict=True)
        later = spread(line.read(one) - line.read(other) for one, other in pairs)
        cells = [line.title, *each, report.cell(later), line.verdict(later.median)]
        yield f"| {' | '.join(cells)} |"


def _lines(runs: Sequence[TableFigures], lines: Sequence[GoalLine]) -> Iterator[str]:
    yield "| | median (lowest to highest) | goal |"
    yield "|---|---|---|"
    for line in lines:
        found = spread(map(line.read, runs))
        if found.count:
            yield f"| {line.title} | {report.cell(found)} | {line.verdict(found.median)} |"


def _provision(results: TableFigures) -> Iterator[str]:
    yield from _lines(results["alone"], _ALONE)
    together = results.get("at_once")
    if together:
        count = len(together["each"])
        yield f"| {count} tenants at once, s a tenant | {together['per_tenant_s']:.1f} | |"
        yield f"| vc-manager's CPU-s for them | {together['manager_cpu_s']:.1f} | |"


def _rollout(results: TableFigures) -> Iterator[str]:
    yield f"| {len(results['tenants'])} tenants upgraded in waves | found |"
    yield "|---|---|"
    for title, figure in rollout.rows(results):
        yield f"| {title} | {figure} |"


def _agent(results: TableFigures) -> Iterator[str]:
    yield "| | median (lowest to highest) | goal |"
    yield "|---|---|---|"
    for row in agent.rows(results):
        if row.verdict:
            yield f"| {row.title} | {row.shown} | {row.goal:g}: {row.verdict} |"


def _agent_steps(results: TableFigures) -> Iterator[str]:
    heads = (*agent_steps.DOORS, "later by the agent")
    yield f"| `true`, ms | {' | '.join(heads)} |"
    yield "|---|" + len(heads) * "---|"
    for title, found in agent_steps.rows(results["turns"]):
        yield f"| {title} | {' | '.join(map(report.cell, found.values()))} |"


def _pages(results: TableFigures) -> Iterator[str]:
    yield "| page of `kubectl vc ui` | p50 ms | p95 ms | goal for p95 |"
    yield "|---|---|---|---|"
    for name, found in results["runs"]["pages"][-1].items():
        verdict = GoalLine(name, at(name, "p95_ms"), results["goal_ms"]).verdict(found["p95_ms"])
        yield f"| {name} | {found['p50_ms']:.0f} | {found['p95_ms']:.0f} | {verdict} |"


def _verbs(results: TableFigures) -> Iterator[str]:
    """Yield the median and the slowest of the helps, and each call."""
    yield (
        "| `kubectl vc` | kubectl ms | `kubectl vc` ms | ratio | own ms | own, shortest ms"
        " | own CPU ms | goal for own |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    helps = [each for each in results["commands"] if each["command"].endswith("--help")]
    helps.sort(key=lambda each: float(each["own_ms"]))
    middle, slowest = helps[len(helps) // 2], helps[-1]
    yield _verb_row(f"help, the median of {len(helps)}: `{middle['command']}`", middle)
    yield _verb_row(f"help, the slowest: `{slowest['command']}`", slowest)
    for each in results["commands"]:
        if each not in helps:
            yield _verb_row(f"`{each['command']}` beside `{each['beside']}`", each)


def _verb_row(title: str, found: TableFigures) -> str:
    keys = ("own_ms", "own_best_ms", "own_cpu_ms")
    own = " | ".join(f"{found[key]:.0f}" for key in keys)
    verdict = GoalLine(title, at("own_ms"), found["goal_ms"]).verdict(found["own_ms"])
    beside = f"{found['kubectl_ms']:.0f} | {found['kubectl_vc_ms']:.0f} | {found['ratio']:.1f}"
    return f"| {title} | {beside} | {own} | {verdict} |"


def _listed(profile: str, lines: Sequence[GoalLine]) -> Callable[[TableFigures], Iterator[str]]:
    return lambda results: _lines(results["runs"][profile], lines)


def _load(
    ways: Sequence[str], lines: Sequence[GoalLine]
) -> Callable[[TableFigures], Iterator[str]]:
    def make(results: TableFigures) -> Iterator[str]:
        runs = {way: results["runs"][way] for way in ways if way in results["runs"]}
        yield f"| | {' | '.join(runs)} |"
        yield "|---|" + len(runs) * "---|"
        for line in lines:
            found = [spread(map(line.read, each)) for each in runs.values()]
            if any(each.count for each in found):
                yield f"| {line.title} | {' | '.join(map(report.cell, found))} |"

    return make


_MAKERS: Mapping[str, Callable[[TableFigures], Iterator[str]]] = {
    "pods-burst-bare": lambda results: chain(_ratios(results), _again(results)),
    "pods-steady-bare": _added,
    **{name: _listed(*rows) for name, rows in _OF.items()},
    **{name: _load(*rows) for name, rows in _LOADS.items()},
    "provision": _provision,
    "rollout": _rollout,
    "agent": _agent,
    "agent-steps": _agent_steps,
    "pages": _pages,
    "verbs": _verbs,
}


def page(before: str, folder: Path = KEPT) -> str:
    """Return the page with the tables of the reports."""
    head, begin, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks the lines between which the tables go")
    return f"{head}{BEGIN}\n{text(folder)}\n{END}{tail}"


def main() -> int:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    before = PAGE.read_text()
    after = page(before)
    if before == after:
        return 0
    if asked.check:
        sys.stderr.write(
            f"{PAGE} does not match the reports. Run `python -m bench.reports.tables`\n"
        )
        return 1
    PAGE.write_text(after)
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
