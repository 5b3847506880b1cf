"""What is measured of an agent: logs, commands, commands beside others.

Owns the order of runs. Each figure of the agent has one of the kubelet right before it. Hazard: the
agent, the kubelet and the client share the machine's cores, so that a stream that is slowed down
here need not be where each has its own.
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

from bench import neighbours, rig, use
from bench.agent_stage import Stage
from bench.doors import Door
from bench.downloads import MEGABYTE, fetch
from bench.execs import ExecError, Times, run
from bench.figures import summary
from tests.node import objects
from vnagent.limits.concurrency import STREAMS_PER_TENANT

GIGABYTE = 1e9
MIB = 1024 * 1024
REST_SECONDS = 2.0
STRANGERS = 2000
PAUSE_SECONDS = (0.1, 0.16)
"""Before a command, at random. What an agent does behind one, the next warm connections above all,
is over by then: of two that follow sooner the second has it beside itself, which in turns of the
two doors is always the agent's own."""
ECHO = ("echo", "hello")
IN_A_ROW = 20
"""Commands at one door, each begun when the one before has ended, before the other door's turn."""
NEIGHBOURS = 2000
"""Streams of other tenants that are open at once."""
BEYOND = 32
"""Callers of one tenant that go on past its limit, over and over."""
POD = neighbours.POD


@dataclass(frozen=True, slots=True)
class Shape:
    """How a log is written, and how much of it is fetched."""

    name: str
    line: int
    alone: int
    """Bytes by one stream."""
    beside: int
    """Bytes by each of several."""


SHAPES = (
    # Containers' lines are cut into pieces of 16 KiB before they are stored.
    Shape("long", 16 * 1024, 512 * MIB, 96 * MIB),
    # The kubelet writes, and encrypts, each line by itself.
    Shape("short", 128, 48 * MIB, 8 * MIB),
)


def prepare(stage: Stage) -> None:
    """Have the pods that commands run in, and nothing that starts processes beside them."""
    stage.place(objects.sleeper(POD))
    stage.place_beside(objects.sleeper(POD))


def logs(stage: Stage, *, rounds: int, streams: int) -> dict[str, Any]:
    """Return MB/s at both doors and the agent's CPU-s per GB: by shape, by number of streams."""
    found: dict[str, Any] = {}
    for shape in SHAPES:
        pod = stage.write_log(f"log-{shape.name}", shape.alone, shape.line)
        found[shape.name] = {
            str(count): [_log_round(stage, pod, count, size) for _ in range(rounds)]
            for count, size in ((1, shape.alone), (streams, shape.beside))
        }
    return found


def _log_round(stage: Stage, pod: str, streams: int, size: int) -> dict[str, Any]:
    """Fetch at one door and then at the other."""
    found: dict[str, Any] = {}
    steady = [_loop_ms()]
    for door in stage.doors:
        pids = {"agent": stage.agent_pid, "kubelet": stage.kubelet_pid}
        before = use.cpu(pids)
        fetched = fetch(door, door.logs(pod, limitBytes=size), streams=streams)
        gigabytes = fetched.size / GIGABYTE
        found[f"{door.name}_mb_s"] = fetched.megabytes_per_s
        for name, used in use.since(before, pids).items():
            found[f"{door.name}_{name}_cpu_s_per_gb"] = used / gigabytes
    found["loop_ms"] = [*steady, _loop_ms()]
    print(
        f"{streams} of {size / MEGABYTE:.0f} MB: kubelet {found['kubelet_mb_s']:.0f} MB/s, agent"
        f" {found['agent_mb_s']:.0f} MB/s, {found['agent_agent_cpu_s_per_gb']:.2f} CPU-s/GB",
        flush=True,
    )
    return found


def _loop_ms() -> float:
    return rig.noise()["median_ms"]


async def execs(stage: Stage, count: int, *words: str) -> dict[str, Any]:
    """Return how long a command takes, in ms, at both doors; each pair follows the one before."""
    contexts = {door.name: door.context() for door in stage.doors}
    times: dict[str, list[Times]] = {door.name: [] for door in stage.doors}
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


async def execs_in_a_row(stage: Stage, count: int, *words: str) -> dict[str, Any]:
    """Return how long a command takes, in ms, that follows the one before without a pause.

    The next warm connections of an agent are made beside them, then.
    """
    contexts = {door.name: door.context() for door in stage.doors}
    times: dict[str, list[Times]] = {door.name: [] for door in stage.doors}
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
    """Let what an agent does behind a command be over before the next."""
    await asyncio.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311 - no secret


def command(door: Door, words: Sequence[str]) -> str:
    """Return the request target of a command in the pod that commands run in."""
    return door.execs(POD, *words, output=1)


def in_ms(times: Sequence[Times]) -> dict[str, dict[str, float]]:
    """Sum up commands, by moment; those that print nothing have no first byte."""
    moments = [each._asdict() for each in times]
    return {
        name: summary(1e3 * each[name] for each in moments).as_dict()
        for name in Times._fields
        if all(each[name] is not None for each in moments)
    }


NOBODY = "nobody"


@contextlib.contextmanager
def _nobody() -> Iterator[dict[str, float]]:
    yield {}


async def floods(stage: Stage, count: int) -> dict[str, Any]:
    """Return how long commands by way of the agent take beside connections of others."""
    context = stage.agent.context()
    each = NEIGHBOURS // len(stage.neighbours)
    others: dict[str, Callable[[], AbstractContextManager[dict[str, float]]]] = {
        NOBODY: _nobody,
        f"{STRANGERS} strangers, one address": lambda: _strangers(stage, 1),
        f"{STRANGERS} strangers, 63 addresses": lambda: _strangers(stage, 63),
        f"{each * len(stage.neighbours)} streams of {len(stage.neighbours)} tenants": (
            lambda: _neighbours(stage, each)
        ),
        f"{STREAMS_PER_TENANT} streams of one tenant, which asks for more": (
            lambda: _neighbours(stage, STREAMS_PER_TENANT, tenants=1, beyond=BEYOND)
        ),
    }
    found: dict[str, Any] = {}
    for name, beside in others.items():
        times: list[Times] = []
        failures: list[str] = []
        with beside() as told:
            used, begun = use.cpu_seconds(stage.agent_pid), time.perf_counter()
            for _ in range(count):
                try:
                    times.append(await run(stage.agent, context, command(stage.agent, ECHO)))
                except (OSError, ExecError, asyncio.IncompleteReadError) as problem:
                    failures.append(f"{type(problem).__name__}: {problem}"[:200])
                    await asyncio.sleep(0.05)
            cores = (use.cpu_seconds(stage.agent_pid) - used) / (time.perf_counter() - begun)
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
def _strangers(stage: Stage, sources: int) -> Iterator[dict[str, float]]:
    """Have strangers at the agent's port; what became of them is there after the block."""
    options = {
        "port": stage.agent.port,
        "folder": stage.folder,
        "count": STRANGERS,
        "sources": sources,
        "seconds": 300,
    }
    with _beside("bench.strangers", *_flags(options)) as (process, told):
        time.sleep(3 * REST_SECONDS)  # all have come, and the first are gone again
        yield told
        told.update(json.loads(process.communicate(timeout=60)[0]))


@contextlib.contextmanager
def _neighbours(
    stage: Stage, each: int, *, tenants: int | None = None, beyond: int = 0
) -> Iterator[dict[str, float]]:
    """Have other tenants hold so many streams each through the agent, all the time.

    So many callers `beyond` of the first one's go on asking for another.
    """
    options = {"port": stage.agent.port, "authority": stage.agent.authority, "each": each}
    options["beyond"] = beyond
    folders = [str(folder) for folder in stage.neighbours[:tenants]]
    with _beside("bench.neighbours", *_flags(options), *folders) as (process, told):
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
    """Have a program of ours run that ends with its standard input."""
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
