"""Measurements of an agent: logs, commands, and commands next to other connections.

Owns the order of runs. Each result of the agent has one of the kubelet right before it. Hazard: a
slower stream must not be attributed to the agent alone. The agent, the kubelet and the client share
the machine's cores here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench.agents import open_streams
from bench.agents.downloads import MEGABYTE, fetch
from bench.agents.endpoints import ApiEntry
from bench.agents.execs import ExecError, ExecTimes, run
from bench.agents.stage import AgentStage
from bench.programs import process_usage, super_cluster
from bench.reports.statistics import summary
from tests.support import node_objects
from vnagent.limits.concurrency import MAX_STREAMS_PER_TENANT

GIGABYTE = 1e9
MIB = 1024 * 1024
REST_SECONDS = 2.0
UNKNOWN_CLIENTS = 2000
PAUSE_SECONDS = (0.1, 0.16)
"""Pause in seconds before a command, at random. An agent's work after a command, mainly the next
warm connections, is over by then. With shorter pauses it would always slow the agent's own next
command, because the two doors are used in turn."""
ECHO = ("echo", "hello")
IN_A_ROW = 20
"""Number of consecutive commands at one door before the other door's turn."""
NEIGHBOURS = 2000
"""Number of streams of other tenants that are open at the same time."""
BEYOND = 32
"""Number of callers of one tenant that retry past its limit."""
POD = open_streams.POD


@dataclass(frozen=True, slots=True)
class LogShape:
    """The format of a log, and the size of the fetched part."""

    name: str
    line: int
    alone: int
    """Bytes of one stream."""
    beside: int
    """Bytes of each of several streams."""


SHAPES = (
    # Containers' lines are cut into pieces of 16 KiB before they are stored.
    LogShape("long", 16 * 1024, 512 * MIB, 96 * MIB),
    # The kubelet writes, and encrypts, each line by itself.
    LogShape("short", 128, 48 * MIB, 8 * MIB),
)


def prepare(stage: AgentStage) -> None:
    """Create the pods for commands, and no load that starts processes."""
    stage.place(node_objects.sleeper(POD))
    stage.place_beside(node_objects.sleeper(POD))


def logs(stage: AgentStage, *, rounds: int, streams: int) -> dict[str, Any]:
    """Return MB/s at both doors and the agent's CPU-s per GB, by format and number of streams."""
    found: dict[str, Any] = {}
    for shape in SHAPES:
        pod = stage.write_log(f"log-{shape.name}", shape.alone, shape.line)
        found[shape.name] = {
            str(count): [_log_round(stage, pod, count, size) for _ in range(rounds)]
            for count, size in ((1, shape.alone), (streams, shape.beside))
        }
    return found


def _log_round(stage: AgentStage, pod: str, streams: int, size: int) -> dict[str, Any]:
    """Fetch at one door and then at the other."""
    found: dict[str, Any] = {}
    steady = [_loop_ms()]
    for door in stage.doors:
        pids = {"agent": stage.agent_pid, "kubelet": stage.kubelet_pid}
        before = process_usage.cpu(pids)
        fetched = fetch(door, door.logs(pod, limitBytes=size), streams=streams)
        gigabytes = fetched.size / GIGABYTE
        found[f"{door.name}_mb_s"] = fetched.megabytes_per_s
        for name, used in process_usage.since(before, pids).items():
            found[f"{door.name}_{name}_cpu_s_per_gb"] = used / gigabytes
    found["loop_ms"] = [*steady, _loop_ms()]
    print(
        f"{streams} of {size / MEGABYTE:.0f} MB: kubelet {found['kubelet_mb_s']:.0f} MB/s, agent"
        f" {found['agent_mb_s']:.0f} MB/s, {found['agent_agent_cpu_s_per_gb']:.2f} CPU-s/GB",
        flush=True,
    )
    return found


def _loop_ms() -> float:
    return super_cluster.noise()["median_ms"]


async def execs(stage: AgentStage, count: int, *words: str) -> dict[str, Any]:
    """Return the ms of a command at both doors. Each pair starts after the one before."""
    contexts = {door.name: door.context() for door in stage.doors}
    times: dict[str, list[ExecTimes]] = {door.name: [] for door in stage.doors}
    steady = [_loop_ms()]
    for number in range(-1, count):
        # In turn, so that neither door is always the one after the other.
        for door in stage.doors if number % 2 else reversed(stage.doors):
            await pause()
            took = await run(door, contexts[door.name], command(door, words))
            if number >= 0:  # the first pair warms up
                times[door.name].append(took)
    found: dict[str, Any] = {name: in_ms(each) for name, each in times.items()}
    found["loop_ms"] = [*steady, _loop_ms()]
    pairs = zip(times["kubelet"], times["agent"], strict=True)
    found["added"] = in_ms([b.later_than(a) for a, b in pairs])
    return found


async def execs_in_a_row(stage: AgentStage, count: int, *words: str) -> dict[str, Any]:
    """Return the ms of a command that follows another without a pause.

    An agent's next warm connections are then created at the same time.
    """
    contexts = {door.name: door.context() for door in stage.doors}
    times: dict[str, list[ExecTimes]] = {door.name: [] for door in stage.doors}
    steady = [_loop_ms()]
    for turn in range(count // IN_A_ROW):
        for door in stage.doors if turn % 2 else reversed(stage.doors):
            await pause()
            target = command(door, words)
            times[door.name] += [
                await run(door, contexts[door.name], target) for _ in range(IN_A_ROW)
            ]
    return {**{name: in_ms(each) for name, each in times.items()}, "loop_ms": [*steady, _loop_ms()]}


async def pause() -> None:
    """Wait until an agent's work after a command is over."""
    await asyncio.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311 - no secret


def command(door: ApiEntry, words: Sequence[str]) -> str:
    """Return the request target of a command in the pod for commands."""
    return door.execs(POD, *words, output=1)


def in_ms(times: Sequence[ExecTimes]) -> dict[str, dict[str, float]]:
    """Summarize commands, by moment. Commands without output have no first byte."""
    moments = [each._asdict() for each in times]
    return {
        name: summary(1e3 * each[name] for each in moments).as_dict()
        for name in ExecTimes._fields
        if all(each[name] is not None for each in moments)
    }


NO_OTHER_LOAD = "no other load"


@contextlib.contextmanager
def _add_no_load() -> Iterator[dict[str, float]]:
    yield {}


async def floods(stage: AgentStage, count: int) -> dict[str, Any]:
    """Return the times of commands through the agent next to other clients' connections."""
    context = stage.agent.context()
    each = NEIGHBOURS // len(stage.neighbours)
    others: dict[str, Callable[[], AbstractContextManager[dict[str, float]]]] = {
        NO_OTHER_LOAD: _add_no_load,
        f"{UNKNOWN_CLIENTS} unknown clients, one address": lambda: _unknown_clients(stage, 1),
        f"{UNKNOWN_CLIENTS} unknown clients, 63 addresses": lambda: _unknown_clients(stage, 63),
        f"{each * len(stage.neighbours)} streams of {len(stage.neighbours)} tenants": (
            lambda: _neighbours(stage, each)
        ),
        f"{MAX_STREAMS_PER_TENANT} streams of one tenant, which asks for more": (
            lambda: _neighbours(stage, MAX_STREAMS_PER_TENANT, tenants=1, beyond=BEYOND)
        ),
    }
    found: dict[str, Any] = {}
    for name, beside in others.items():
        times: list[ExecTimes] = []
        failures: list[str] = []
        with beside() as told:
            used, begun = process_usage.cpu_seconds(stage.agent_pid), time.perf_counter()
            for _ in range(count):
                try:
                    times.append(await run(stage.agent, context, command(stage.agent, ECHO)))
                except (OSError, ExecError, asyncio.IncompleteReadError) as problem:
                    failures.append(f"{type(problem).__name__}: {problem}"[:200])
                    await asyncio.sleep(0.05)
            cores = (process_usage.cpu_seconds(stage.agent_pid) - used) / (
                time.perf_counter() - begun
            )
        found[name] = {
            **in_ms(times),
            "asked": count,
            "failed": len(failures),
            "failures": sorted(set(failures))[:5],
            "agent_cores": cores,
            "others": told,
        }
        print(
            f"beside {name}: {len(failures)} of {count} commands failed, first byte p99"
            f" {found[name]['first']['p99']:.0f} ms, {told.get('mean_open', 0):.0f} open",
            flush=True,
        )
    return found


@contextlib.contextmanager
def _unknown_clients(stage: AgentStage, sources: int) -> Iterator[dict[str, float]]:
    """Run unknown clients at the agent's port. Their results are available after the block."""
    options = {
        "port": stage.agent.port,
        "folder": stage.folder,
        "count": UNKNOWN_CLIENTS,
        "sources": sources,
        "seconds": 300,
    }
    with _beside("bench.agents.unknown_clients", *_flags(options)) as (process, told):
        time.sleep(3 * REST_SECONDS)  # all are connected, and the first are closed again
        yield told
        told.update(json.loads(process.communicate(timeout=60)[0]))


@contextlib.contextmanager
def _neighbours(
    stage: AgentStage, each: int, *, tenants: int | None = None, beyond: int = 0
) -> Iterator[dict[str, float]]:
    """Keep so many streams of each other tenant open through the agent.

    `beyond` callers of the first one keep trying to open another stream.
    """
    options = {"port": stage.agent.port, "authority": stage.agent.authority, "each": each}
    options["beyond"] = beyond
    folders = [str(folder) for folder in stage.neighbours[:tenants]]
    with _beside("bench.agents.open_streams", *_flags(options), *folders) as (process, told):
        assert process.stdout is not None
        opened_now = json.loads(process.stdout.readline() or "{}")
        if opened_now.get("open") != each * len(folders):
            raise SystemExit("not all streams of other tenants could be opened")
        time.sleep(REST_SECONDS)
        yield told
        told.update(json.loads(process.communicate(timeout=60)[0]))
        if told["mean_open"] < told["made"] or told["let_in_beyond"]:
            raise SystemExit("the streams of other tenants were not as many all the time")


def _flags(options: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


@contextlib.contextmanager
def _beside(module: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, float]]]:
    """Run one of our programs that ends with its standard input."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, {}
        finally:
            process.kill()
