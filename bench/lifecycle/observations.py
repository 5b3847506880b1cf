"""Client of the observer's process, and the observer's results.

Owns the pipe. Hazard: only one command may run at a time. Otherwise answers would be mixed up.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.programs.super_cluster import ROOT

_LINE_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class ObservedTimes:
    """Times of one run, by side, kind and name. A name is one object on each side."""

    stamps: Mapping[tuple[str, str, str], Mapping[str, float]]
    events: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def when(self, side: str, what: str, kind: str = "Pod") -> dict[str, float]:
        """Return the time at which each object was first seen in a state, by name."""
        return {
            name: stamps[what]
            for (seen_side, seen_kind, name), stamps in self.stamps.items()
            if seen_side == side and seen_kind == kind and what in stamps
        }


def delays(begun: Mapping[str, float], ended: Mapping[str, float]) -> list[float]:
    """Return milliseconds between two moments of all objects that have both."""
    return [1e3 * (ended[name] - at) for name, at in begun.items() if name in ended]


class LaggingError(Exception):
    """The awaited objects did not appear in time."""


class ObserverProcess:
    """The observer's process."""

    def __init__(self, process: asyncio.subprocess.Process, sides: Mapping[str, str]) -> None:
        self._process = process
        self._sides = sides
        self.pid = process.pid

    async def begin(self, prefix: str) -> None:
        """Delete all records. From now on only names with this prefix count."""
        await self._ask({"do": "begin", "prefix": prefix})

    async def until(
        self, side: str, what: str, count: int, *, kind: str = "Pod", timeout: float
    ) -> None:
        """Wait until so many objects were seen in a state. Raises LaggingError."""
        seen = await self.count(side, what, count, kind=kind, timeout=timeout)
        if seen < count:
            raise LaggingError(
                f"after {timeout:.0f} s {seen} of {count} {kind}s were seen {what} in the {side}"
            )

    async def count(
        self, side: str, what: str, count: int, *, kind: str = "Pod", timeout: float
    ) -> int:
        """Wait for so many objects, up to a limit. Returns the number seen in a state."""
        answer = await self._ask(
            {
                "do": "await",
                "side": side,
                "kind": kind,
                "what": what,
                "count": count,
                "timeout": timeout,
            }
        )
        return int(answer["count"])

    async def take(self) -> ObservedTimes:
        """Return all records since `begin`."""
        answer = await self._ask({"do": "take"})
        stamps = {
            (self._sides[cluster], kind, name): seen
            for cluster, kind, name, seen in answer["stamps"]
        }
        events = {(side, kind): count for side, kind, count in answer["events"]}
        return ObservedTimes(stamps, events)

    async def _ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        pipe_in.write(json.dumps(command).encode() + b"\n")
        line = await pipe_out.readline()
        if not line:
            raise SystemExit("the observer has ended. See its log")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def observing(
    clusters: Iterable[tuple[str, str, Path]], kinds: Sequence[str], folder: Path
) -> AsyncIterator[ObserverProcess]:
    """Run the observer for clusters given as name, side and kubeconfig."""
    known = [{"name": name, "side": side, "kubeconfig": str(path)} for name, side, path in clusters]
    plan = folder / "observer.json"
    plan.write_text(json.dumps({"clusters": known, "kinds": list(kinds)}))
    with (folder / "observer.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL"),
            *(sys.executable, "-m", "bench.lifecycle.observer", str(plan)),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=_LINE_BYTES,
        )
    try:
        yield ObserverProcess(process, {cluster["name"]: cluster["side"] for cluster in known})
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
