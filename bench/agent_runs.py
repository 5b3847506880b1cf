"""What is measured of an agent: logs, commands, memory of streams, commands beside strangers.

Owns the order of runs. Each figure of the agent has one of the kubelet right before it. Hazard: the
agent, the kubelet and the client share the machine's cores, so that a stream that is slowed down
here need not be where each has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import use
from bench.agent_stage import SLEEPER, TICKER, Stage
from bench.doors import Door
from bench.downloads import MEGABYTE, fetch
from bench.execs import ExecError, Times, opened, run
from bench.figures import summary
from tests.node import objects

GIGABYTE = 1e9
MIB = 1024 * 1024
REST_SECONDS = 2.0
WARM_STREAMS = 10
_POD, _TICKER = "tool", "ticker"


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
    """Have the pods that all but the long logs are about."""
    stage.place(objects.pod(_POD, SLEEPER))
    stage.place(objects.pod(_TICKER, TICKER))


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


def _log_round(stage: Stage, pod: str, streams: int, size: int) -> dict[str, float]:
    """Fetch at one door and then at the other."""
    found: dict[str, float] = {}
    for door in stage.doors:
        pids = {"agent": stage.agent_pid, "kubelet": stage.kubelet_pid}
        before = use.cpu(pids)
        fetched = fetch(door, door.logs(pod, limitBytes=size), streams=streams)
        gigabytes = fetched.size / GIGABYTE
        found[f"{door.name}_mb_s"] = fetched.megabytes_per_s
        for name, used in use.since(before, pids).items():
            found[f"{door.name}_{name}_cpu_s_per_gb"] = used / gigabytes
    print(
        f"{streams} of {size / MEGABYTE:.0f} MB: kubelet {found['kubelet_mb_s']:.0f} MB/s, agent"
        f" {found['agent_mb_s']:.0f} MB/s, {found['agent_agent_cpu_s_per_gb']:.2f} CPU-s/GB",
        flush=True,
    )
    return found


async def execs(stage: Stage, count: int) -> dict[str, Any]:
    """Return how long commands take, in ms, at both doors; each pair follows the one before."""
    contexts = {door.name: door.context() for door in stage.doors}
    times: dict[str, list[Times]] = {door.name: [] for door in stage.doors}
    for number in range(-1, count):
        # In turn, so that neither door is always the one after the other.
        for door in stage.doors if number % 2 else reversed(stage.doors):
            took = await run(door, contexts[door.name], _echo(door))
            if number >= 0:  # the first pair warms up
                times[door.name].append(took)
    found: dict[str, Any] = {name: in_ms(each) for name, each in times.items()}
    pairs = list(zip(times["kubelet"], times["agent"], strict=True))
    found["added"] = {
        "switched": summary(1e3 * (b.switched - a.switched) for a, b in pairs).as_dict(),
        "first": summary(1e3 * (b.first - a.first) for a, b in pairs).as_dict(),
        "exited": summary(1e3 * (b.exited - a.exited) for a, b in pairs).as_dict(),
    }
    return found


def _echo(door: Door) -> str:
    return door.execs(_POD, "echo", "hello", output=1)


def in_ms(times: list[Times]) -> dict[str, dict[str, float]]:
    """Sum up commands."""
    return {
        "switched": summary(1e3 * each.switched for each in times).as_dict(),
        "first": summary(1e3 * each.first for each in times).as_dict(),
        "exited": summary(1e3 * each.exited for each in times).as_dict(),
    }


async def memory(stage: Stage, *, follows: int, commands: int) -> dict[str, dict[str, float]]:
    """Return by how much the agent grows with each open stream, in KiB of resident memory."""
    agent = stage.agent
    waits = agent.execs(_POD, "sh", "-c", "echo ready; cat", input=1, output=1)
    return {
        "a log without news": await _held(
            stage, "GET", agent.logs(_POD, follow="true"), follows, b"ready"
        ),
        "a log with five lines a second": await _held(
            stage, "GET", agent.logs(_TICKER, follow="true"), follows, b"tick"
        ),
        "a command that waits for input": await _held(stage, "", waits, commands, b"ready"),
    }


async def _held(
    stage: Stage, method: str, target: str, count: int, first: bytes
) -> dict[str, float]:
    """Open streams, wait for the first bytes of each, and see what the agent holds for them."""
    context = stage.agent.context()
    async with contextlib.AsyncExitStack() as warm:
        for _ in range(WARM_STREAMS):
            await warm.enter_async_context(_stream(stage.agent, context, method, target, first))
    await asyncio.sleep(REST_SECONDS)
    before = use.memory(stage.agent_pid).rss
    async with contextlib.AsyncExitStack() as streams:
        for _ in range(count):
            await streams.enter_async_context(_stream(stage.agent, context, method, target, first))
        await asyncio.sleep(REST_SECONDS)
        after = use.memory(stage.agent_pid).rss
    await asyncio.sleep(REST_SECONDS)
    return {
        "streams": count,
        "before_mib": before,
        "open_mib": after,
        "closed_mib": use.memory(stage.agent_pid).rss,
        "kib_each": (after - before) * 1024 / count,
    }


@contextlib.asynccontextmanager
async def _stream(
    door: Door, context: ssl.SSLContext, method: str, target: str, first: bytes
) -> Any:
    """Hold one stream from its first bytes on; what comes is read and dropped."""
    if method:
        reader, writer = await asyncio.open_connection(
            door.host, door.port, ssl=context, server_hostname=door.host
        )
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: {door.host}\r\n\r\n".encode())
    else:
        reader, writer = await opened(door, context, target)
    await reader.readuntil(first)

    async def drop() -> None:
        while await reader.read(64 * 1024):
            pass

    dropping = asyncio.ensure_future(drop())
    try:
        yield
    finally:
        dropping.cancel()
        writer.transport.abort()


FLOODS = (("no strangers", 0, 1), ("from one address", 2000, 1), ("from 63 addresses", 2000, 63))


async def floods(stage: Stage, count: int) -> dict[str, Any]:
    """Return how long commands by way of the agent take beside strangers' connections."""
    context = stage.agent.context()
    found: dict[str, Any] = {}
    for name, strangers, sources in FLOODS:
        times: list[Times] = []
        failures: list[str] = []
        with _strangers(stage, strangers, sources) as told:
            used, begun = use.cpu_seconds(stage.agent_pid), time.perf_counter()
            for _ in range(count):
                try:
                    times.append(await run(stage.agent, context, _echo(stage.agent)))
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
            "strangers": told,
        }
        print(
            f"strangers {name}: {len(failures)} of {count} commands failed, first byte p99"
            f" {found[name]['first']['p99']:.0f} ms, {told.get('mean_open', 0):.0f} open",
            flush=True,
        )
    return found


@contextlib.contextmanager
def _strangers(stage: Stage, count: int, sources: int) -> Iterator[dict[str, float]]:
    """Have strangers at the agent's port; what became of them is there after the block."""
    told: dict[str, float] = {}
    if not count:
        yield told
        return
    options = {
        "port": stage.agent.port,
        "folder": stage.folder,
        "count": count,
        "sources": sources,
        "seconds": 300,
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    with subprocess.Popen(
        [sys.executable, "-m", "bench.strangers", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            time.sleep(3 * REST_SECONDS)  # all have come, and the first are gone again
            yield told
            told.update(json.loads(process.communicate(timeout=60)[0]))
        finally:
            process.kill()
