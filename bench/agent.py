"""Cost of the node agent for a tenant's kubelet calls, beside the same calls to the kubelet.

    python -m tools.testbed up --no-chart
    python -m bench.agent

Runs an agent on the host in front of the embedded cluster's node. One client alternates between two
ports: the kubelet's, as the super API server, and the agent's, as a tenant's API server. Prints a
table and writes JSON to `bench/results/agent.json`. With `--only`, the file has the name of the
part.
"""

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.agents import stage as agent_stage
from bench.agents.memory import memory
from bench.agents.runs import ECHO, SHAPES, execs, execs_in_a_row, floods, logs, prepare
from bench.programs import image_python, super_cluster
from bench.reports.report import cell
from bench.reports.statistics import RunSpread, ratios, spread
from tools.testbed.cluster.handle import ClusterHandle

GOAL_SHARE = {1: 0.95, 10: 0.75}
"""Goals as a share of the kubelet's MB/s, by number of streams."""
GOAL_CPU_S_PER_GB = 1.3
GOAL_ADDED_MS = 2.0
GOAL_KIB = 256.0
GOAL_FLOOD_MS = 500.0
PARTS = ("logs", "exec", "memory", "floods")
STEADY = 1.25
"""Between the fixed loop before a round and after it, at most, for the round to be a quiet one."""


@dataclass(frozen=True, slots=True)
class AgentFigure:
    """A figure, with the goal that it has or has not reached."""

    title: str
    figure: RunSpread
    goal: float = math.nan
    is_least: bool = False
    """Whether the goal is the least that will do, not the most."""
    failed: int = 0
    """Calls that were not answered: no goal is kept then."""
    least: float = 0.0
    """Smallest value that can be distinguished from zero."""

    @property
    def shown(self) -> str:
        """The figure, with its lowest and highest round."""
        if self.figure.median < self.least:
            return f"below {cell(_one(self.least))}"
        return cell(self.figure)

    @property
    def verdict(self) -> str:
        """Return whether the goal is kept."""
        if math.isnan(self.goal):
            return ""
        median = self.figure.median
        is_kept = median >= self.goal if self.is_least else median <= self.goal
        return "kept" if is_kept and not self.failed else "missed"


def rows(results: Mapping[str, Any]) -> Iterator[AgentFigure]:
    """Yield the figures of a report, in the order in which they are read."""
    for shape in SHAPES:
        for streams, rounds in results.get("logs", {}).get(shape.name, {}).items():
            yield from _log_rows(f"logs, {shape.line} B lines, {streams} at once", streams, rounds)
    for kind, rounds in results.get("exec", {}).items():
        yield from _exec_rows(f"exec {kind}", rounds)
    for name, found in results.get("memory", {}).items():
        title, least = f"memory, {name}, KiB each", found.get("resolution_kib", 0.0)
        yield AgentFigure(title, _one(found["kib_each"]), GOAL_KIB, least=least)
    for name, found in results.get("floods", {}).items():
        title = f"exec beside {name}, first byte p99 ms"
        yield AgentFigure(title, _one(found["first"]["p99"]), GOAL_FLOOD_MS, failed=found["failed"])


def _exec_rows(title: str, rounds: Sequence[Mapping[str, Any]]) -> Iterator[AgentFigure]:
    for moment in rounds[0]["agent"]:
        goal = math.nan if moment == "switched" else GOAL_ADDED_MS
        for door in ("kubelet", "agent"):
            yield AgentFigure(f"{title}, {moment}, {door}, p50 ms", _medians(rounds, door, moment))
        later = spread(
            each["agent"][moment]["p50"] - each["kubelet"][moment]["p50"] for each in rounds
        )
        yield AgentFigure(f"{title}, {moment}, p50 later by the agent, ms", later, goal)
        if "added" in rounds[0]:
            pairs = _medians(rounds, "added", moment)
            yield AgentFigure(f"{title}, {moment}, p50 of what a pair differs by, ms", pairs, goal)


def _log_rows(
    title: str, streams: str, rounds: Sequence[Mapping[str, float]]
) -> Iterator[AgentFigure]:
    agent, kubelet = ([each[f"{door}_mb_s"] for each in rounds] for door in ("agent", "kubelet"))
    yield AgentFigure(f"{title}, kubelet, MB/s", spread(kubelet))
    yield AgentFigure(f"{title}, agent, MB/s", spread(agent))
    goal = GOAL_SHARE.get(int(streams), math.nan)
    yield AgentFigure(
        f"{title}, agent to kubelet", spread(ratios(agent, kubelet)), goal, is_least=True
    )
    cost = spread(each["agent_agent_cpu_s_per_gb"] for each in rounds)
    yield AgentFigure(f"{title}, agent's CPU-s/GB", cost)
    yield AgentFigure(f"{title}, added CPU-s/GB", spread(map(_added, rounds)), GOAL_CPU_S_PER_GB)


def _medians(rounds: Sequence[Mapping[str, Any]], door: str, moment: str) -> RunSpread:
    return spread(each[door][moment]["p50"] for each in rounds)


def _added(found: Mapping[str, float]) -> float:
    """Return what the agent costs, and what its kubelet costs more than asked directly."""
    kubelet = found["agent_kubelet_cpu_s_per_gb"] - found["kubelet_kubelet_cpu_s_per_gb"]
    return found["agent_agent_cpu_s_per_gb"] + kubelet


def _one(figure: float) -> RunSpread:
    return spread([figure])


def table(results: Mapping[str, Any]) -> str:
    """Return the figures as lines for people."""
    lines = [f"machine: {results['cores']} cores, the agent with {results['python']}"]
    for when in ("before", "after"):
        noise = results["noise"][when]
        lines.append(
            f"{when}: load {noise['load_1min']:.2f}, a fixed loop took {noise['median_ms']:.0f}"
            f" ms, spread {noise['spread']:.0%}"
        )
    lines += ["", f"{'median (lowest to highest)':60}{'figure':>24}{'goal':>8}"]
    lines += [_line(row) for row in rows(results)]
    for name, found in results.get("floods", {}).items():
        told = found["others"]
        lines.append(
            f"beside {name}: {found['failed']} of {found['asked']} commands failed,"
            f" {told.get('mean_open', 0):.0f} open at a time of {told.get('made', 0):.0f} made,"
            f" agent {found['agent_cores']:.2f} cores"
        )
    lines += [f"not steady: {each}" for each in unsteady(results)]
    return "\n".join(lines)


def _line(row: AgentFigure) -> str:
    goal = "" if math.isnan(row.goal) else f"{row.goal:g}"
    return f"{row.title:60}{row.shown:>24}{goal:>8} {row.verdict}".rstrip()


def unsteady(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield each round in which the machine was not as quick at its end as at its begin."""
    kinds = {f"exec {kind}": rounds for kind, rounds in results.get("exec", {}).items()} | {
        f"logs, {name}, {streams}": rounds
        for name, each in results.get("logs", {}).items()
        for streams, rounds in each.items()
    }
    for title, rounds in kinds.items():
        for number, found in enumerate(rounds, 1):
            before, after = found.get("loop_ms", (1.0, 1.0))
            if not 1 / STEADY <= after / before <= STEADY:
                yield (
                    f"{title}, round {number} of {len(rounds)}: a fixed loop took {before:.0f} ms"
                    f" before it and {after:.0f} after it"
                )


async def _calls(stage: agent_stage.AgentStage, asked: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "exec" in asked.only:
        turns = range(asked.turns)
        found["exec"] = {
            "echo, alone": [await execs(stage, asked.commands // 2, *ECHO) for _ in turns],
            "true, alone": [await execs(stage, asked.commands // 2, "true") for _ in turns],
            "true, in a row": [await execs_in_a_row(stage, asked.commands, "true") for _ in turns],
        }
    if "floods" in asked.only:
        found["floods"] = await floods(stage, asked.commands)
    if "memory" in asked.only:
        found["memory"] = await memory(
            stage, follows=asked.follows, commands=asked.held, stalled=asked.stalled
        )
    return found


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Set everything up, measure, and take it down."""
    results: dict[str, Any] = {"noise": {"before": super_cluster.noise()}, **image_python.machine()}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        agent_stage.running(ClusterHandle(asked.cluster), Path(folder)) as stage,
    ):
        prepare(stage)
        if "logs" in asked.only:
            results["logs"] = logs(stage, rounds=asked.rounds, streams=asked.streams)
        os.sync()  # or the logs go to the disk while commands are timed
        results |= uvloop.run(_calls(stage, asked))
    results["noise"]["after"] = super_cluster.noise()
    return results


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS, default=PARTS)
    parser.add_argument("--cluster", default="super", help="name of the embedded cluster")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind of log")
    parser.add_argument(
        "--turns",
        type=int,
        default=10,
        help="of commands: a runtime takes 30 ms for one, more or less",
    )
    parser.add_argument("--streams", type=int, default=10, help="logs at once, beside one alone")
    parser.add_argument(
        "--commands",
        type=int,
        default=200,
        help="at each port in a round (half as many for single ones)",
    )
    parser.add_argument("--follows", type=int, default=200, help="logs to hold open")
    parser.add_argument("--held", type=int, default=200, help="commands to hold open")
    parser.add_argument("--stalled", type=int, default=100, help="logs that are not read on")
    asked = parser.parse_args()
    results = measure(asked)
    print("\n" + table(results))
    super_cluster.write("-".join(("agent", *(asked.only if asked.only != PARTS else ()))), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
