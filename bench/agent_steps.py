"""Duration of a command step by step, at the kubelet's port and at the node agent's.

    python -m tools.testbed up --no-chart
    python -m bench.agent_steps

Runs `true` at both ports, and at the kubelet's also on an open connection, as the agent has them.
The order is random, with pauses. Compares the client's clock with the kernel's, which records when
the container runtime started and when the command ended. Between these times neither kubelet nor
agent does any work, and that is most of the time. It waits for ticks of the kernel and varies by
milliseconds, so a hundred commands cannot measure half a millisecond. The time before and after is
steady, and it is the cost of a hop. Needs root. Prints a table, writes JSON to
`bench/results/agent-steps.json`.
"""

import argparse
import random
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import uvloop

from bench.agents import stage as agent_stage
from bench.agents.execs import run
from bench.agents.runs import command, pause, prepare
from bench.agents.tracing import NoTracingError, ProcessEvent, traced
from bench.programs import image_python, super_cluster
from bench.reports.report import cell
from bench.reports.statistics import RunSpread, spread, summary
from tools.testbed.cluster.handle import ClusterHandle

WORDS = ("true",)
RUNTIME = "runc"
AHEAD_SECONDS = 0.06
"""As long as a connection of the agent's stands before its use, at least."""
STANDING = "kubelet, standing"
DOORS = ("kubelet", STANDING, "agent")
ENOUGH = 0.8
"""Least share of commands with known steps. Other commands started in the midst of the rest."""
OWN = "before and after"
"""Name of the steps outside of the runtime."""


class CommandSteps(NamedTuple):
    """Seconds of one command, one after the other."""

    before: float
    """From the client's first word until the runtime is begun."""
    runtime: float
    """Until the command has ended."""
    after: float
    """Until the client knows how."""


class CommandRun(NamedTuple):
    """One command, in seconds of the monotonic clock."""

    begun: float
    ended: float


def steps(ran: CommandRun, events: Sequence[ProcessEvent]) -> CommandSteps | None:
    """Return the steps of a command from ordered events. None if other events came in between."""
    first, behind = (bisect_left(events, moment, key=attrgetter("at")) for moment in ran)
    within = events[first:behind]
    begins = [event.at for event in within if event.name == RUNTIME and not event.has_ended]
    starts = [event.at for event in within if event.name == WORDS[0] and not event.has_ended]
    ends = [event.at for event in within if event.name == WORDS[0] and event.has_ended]
    if not len(begins) == len(starts) == len(ends) == 1 or not begins < starts < ends:
        return None
    return CommandSteps(begins[0] - ran.begun, ends[0] - begins[0], ran.ended - ends[0])


async def commands(stage: agent_stage.AgentStage, pairs: int) -> dict[str, list[CommandRun]]:
    """Run so many commands at each door. Returns the commands by door."""
    doors = dict(zip(DOORS, (stage.direct, stage.direct, stage.agent), strict=True))
    contexts = {name: door.context() for name, door in doors.items()}
    found: dict[str, list[CommandRun]] = {name: [] for name in DOORS}
    for number in range(-1, pairs):
        for name in random.sample(DOORS, len(DOORS)):
            await pause()
            target = command(doors[name], WORDS)
            ahead = AHEAD_SECONDS if name == STANDING else 0.0
            took = await run(doors[name], contexts[name], target, ahead_seconds=ahead)
            ended = perf_counter()
            if number >= 0:  # the first of each warms up
                found[name].append(CommandRun(ended - took.exited, ended))
    return found


async def turn(stage: agent_stage.AgentStage, pairs: int) -> dict[str, Any]:
    """Return the median of each step in ms, by door, and the number of usable commands.

    Raises NoTracingError.
    """
    with traced() as events:
        ran = await commands(stage, pairs)
    found: dict[str, Any] = {}
    for name, each in ran.items():
        told = [known for one in each if (known := steps(one, events)) is not None]
        if len(told) < ENOUGH * len(each):
            raise NoTracingError(
                f"{len(told)} of {len(each)} commands had known steps. Check which other program"
                f" runs {RUNTIME}"
            )
        found[name] = {
            "commands": len(told),
            **{
                step: summary(1e3 * getattr(one, step) for one in told).p50
                for step in CommandSteps._fields
            },
        }
    return found


def rows(turns: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, RunSpread]]]:
    """Yield each step with its ms at each door and how much `later` it is by the agent."""
    steps_of = {**{name: (name,) for name in CommandSteps._fields}, OWN: ("before", "after")}
    for title, names in steps_of.items():
        at = {door: [sum(each[door][name] for name in names) for each in turns] for door in DOORS}
        later = [b - a for a, b in zip(at["kubelet"], at["agent"], strict=True)]
        yield title, {name: spread(found) for name, found in {**at, "later": later}.items()}


def lines(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table for people."""
    heads = "".join(f"{name:>24}" for name in (*DOORS, "later"))
    yield f"{'ms, median of turns (lowest to highest)':40}{heads}"
    for title, found in rows(turns):
        yield f"{title:40}" + "".join(f"{cell(each):>24}" for each in found.values())


def measure(cluster: str, *, turns: int, pairs: int) -> dict[str, Any]:
    """Start everything, measure, and stop everything. Raises NoTracingError."""
    with traced():
        pass  # otherwise the error would come after minutes
    results: dict[str, Any] = {
        "noise": {"before": super_cluster.noise()},
        **image_python.machine(),
        "turns": [],
    }
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        agent_stage.running(ClusterHandle(cluster), Path(folder)) as stage,
    ):
        prepare(stage)
        for number in range(1, turns + 1):
            results["turns"].append(uvloop.run(turn(stage, pairs)))
            print(f"turn {number} of {turns}", flush=True)
    results["noise"]["after"] = super_cluster.noise()
    return results


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cluster", default="super", help="name of the embedded cluster")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=200, help="commands at each door in a turn")
    asked = parser.parse_args()
    try:
        results = measure(asked.cluster, turns=asked.turns, pairs=asked.pairs)
    except NoTracingError as error:
        raise SystemExit(str(error)) from error
    print("\n" + "\n".join(lines(results["turns"])))
    super_cluster.write("agent-steps", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
