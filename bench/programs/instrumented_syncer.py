"""Our syncer with measuring devices in its own process: a ticker, a sampler, counts.

Run as `python -m bench.programs.instrumented_syncer FILE [the syncer's options]`. The ticker
measures the delay of the event loop. The sampler reads the stack after each 2 ms of processor time.
For each reconcile of a pod that writes, the time from the event that was read to the first write is
recorded. That is the time of the engine itself. All devices are reset at SIGUSR1, and write FILE at
SIGUSR2 and at the end. Hazard: latencies must be measured without the sampler. It costs some
percent and attributes C code to the line that called it.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from bench.programs.super_cluster import ROOT
from bench.reports.statistics import summary
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import NotReadyYet, Result
from kubeio.http.rest import RestClient
from syncer import __main__, app
from syncer.handlers.dispatcher import Dispatcher
from syncer.model.keys import Key
from syncer.safety.expectations import ClusterSide, Expectations
from tenancy.resources import PODS

TICK = 0.01
_SAMPLE = 0.002
_DEPTH = 60
_HELD_MS = 10.0
"""Milliseconds of a blocked event loop from which its stacks are kept."""
_reconcile = Dispatcher.reconcile
_request = RestClient.request
_IN_WORK: ContextVar[Callable[[], float | None] | None] = ContextVar("in_work", default=None)
"""Time since the key of this task's reconcile was queued, until its first write."""


class SyncerCounters:
    """The results since the last reset."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._late: list[float] = []
        self._own_late: list[float] = []
        self._held: list[tuple[float, list[str]]] = []
        self._recent: list[str] = []
        self._own: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._stacks: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._wrote: set[Key] = set()
        self._engine: list[float] = []
        self._samples = 0
        self._collecting = self._collected = self._longest = 0.0
        self._began = time.process_time()

    def begin(self) -> None:
        """Reset all devices."""
        for found in (self._late, self._own_late, self._held, self._engine):
            found.clear()
        for counter in (self._own, self._total, self._stacks, self._files, self._runs):
            counter.clear()
        self._samples = 0
        self._collected = self._longest = 0.0
        self._began = time.process_time()

    def collect(self, phase: str, _: dict[str, int]) -> None:
        """Measure the garbage collector, which no stack shows."""
        now = time.process_time()
        if phase == "start":
            self._collecting = now
        else:
            self._collected += now - self._collecting
            self._longest = max(self._longest, now - self._collecting)

    async def run(self, engine: Dispatcher, key: Key) -> Result:
        """Count a reconcile by its kind, its result, and whether it wrote."""
        came = "error"
        self._wrote.discard(key)
        session = engine.get_session(key) if key.kind == PODS.kind else None
        in_work = _IN_WORK.set(None if session is None else partial(session.queue.get_age, key))
        try:
            verdict = await _reconcile(engine, key)
            came = type(verdict).__name__
        except NotReadyYet as wait:
            came = f"Wait: {wait.reason}"
            raise
        else:
            return verdict
        finally:
            _IN_WORK.reset(in_work)
            self._runs[f"{key.kind} {came}{', wrote' if key in self._wrote else ''}"] += 1

    def sent(self, method: str) -> None:
        """Record the time from the queueing of a key to the first write of its reconcile."""
        age = _IN_WORK.get()
        if age is None or method == "GET":
            return
        _IN_WORK.set(None)
        waited = age()
        if waited is not None:
            self._engine.append(1e3 * waited)

    def noting(self, write: Callable[..., None]) -> Callable[..., None]:
        """Return a method of `Expectations` that records its key."""

        def noted(own: Expectations, side: ClusterSide, key: Key, *rest: Any, **more: Any) -> None:
            self._wrote.add(key)
            write(own, side, key, *rest, **more)

        return noted

    async def tick(self) -> None:
        """Measure the delay of the event loop, until cancelled.

        Our own part is the processor time of this process in the meantime. In the rest other
        programs had the core.
        """
        while True:
            due, worked = time.monotonic() + TICK, time.process_time()
            self._recent.clear()
            await asyncio.sleep(TICK)
            late = 1e3 * (time.monotonic() - due)
            own = max(min(late, 1e3 * (time.process_time() - worked)), 0.0)
            self._late.append(late)
            self._own_late.append(own)
            if own > _HELD_MS:
                self._held.append((own, list(self._recent)))

    def sample(self, _: int, frame: FrameType | None) -> None:
        """Count a stack."""
        self._samples += 1
        names: list[str] = []
        while frame is not None and len(names) < _DEPTH:
            names.append(_named(frame))
            frame = frame.f_back
        if names:
            self._own[names[0]] += 1
            self._total.update(set(names))
            self._files[names[0].partition(":")[0]] += 1
            self._stacks[" < ".join(names[:6])] += 1
            self._recent.append(" < ".join(names[:4]))

    def write(self) -> None:
        """Write the results. No sample may happen while the counters are read."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
        try:
            self._write()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})

    def _write(self) -> None:
        late = summary(self._late)
        found = {
            "late_ms": late.as_dict(),
            "own_late_ms": summary(self._own_late).as_dict(),
            "engine_ms": summary(self._engine).as_dict(),
            "held": sorted(self._held, reverse=True)[:20],
            "cpu_s": time.process_time() - self._began,
            "garbage_s": self._collected,
            "garbage_longest_ms": 1e3 * self._longest,
            "samples": self._samples,
            "runs": self._runs.most_common(40),
            "files": self._files.most_common(40),
            "own": self._own.most_common(60),
            "total": self._total.most_common(120),
            "stacks": self._stacks.most_common(60),
        }
        making = self._into.with_suffix(".making")
        making.write_text(json.dumps(found, indent=1))
        making.rename(self._into)


def _named(frame: FrameType) -> str:
    code = frame.f_code
    file = code.co_filename
    short = file.removeprefix(f"{ROOT}/")
    if "site-packages/" in file:
        short = file.rpartition("site-packages/")[2]
    elif "/lib/python" in file:
        short = file.rpartition("/lib/python")[2].partition("/")[2]
    return f"{short}:{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name}"


EXPECTATION_METHODS = ("expect_update", "expect_delete", "expect_any_update")


def main() -> int:
    """Run the syncer until it is stopped by a signal."""
    devices = SyncerCounters(Path(sys.argv[1]))
    serve = app.run_with_leader_election

    async def measured(options: app.SyncerOptions, endpoint: Endpoint) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, devices.begin)
        loop.add_signal_handler(signal.SIGUSR2, devices.write)
        gc.callbacks.append(devices.collect)
        signal.signal(signal.SIGPROF, devices.sample)
        signal.setitimer(signal.ITIMER_PROF, _SAMPLE, _SAMPLE)
        ticking = asyncio.ensure_future(devices.tick())
        try:
            return await serve(options, endpoint)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            ticking.cancel()
            devices.write()

    async def counted(engine: Dispatcher, key: Key) -> Result:
        return await devices.run(engine, key)

    async def stamped(transport: RestClient, method: str, path: str, **more: Any) -> bytes:
        devices.sent(method)
        return await _request(transport, method, path, **more)

    app.run_with_leader_election = measured
    RestClient.request = stamped  # type: ignore[assignment, method-assign]
    Dispatcher.reconcile = counted  # type: ignore[assignment, method-assign]
    for name in EXPECTATION_METHODS:
        setattr(Expectations, name, devices.noting(getattr(Expectations, name)))
    return __main__.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
