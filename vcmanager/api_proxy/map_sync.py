"""Loop that keeps the map of HAProxy equal to the host names of the super cluster.

Owns the file and the running map. Each turn compares the whole map, so that a restart of HAProxy or
of this program needs no other code.

Hazard: nothing may be removed from the map before all VirtualClusters are known. A restart of this
program would otherwise cut off every tenant.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog

from kubeio.backoff import Backoff
from vcmanager.api_proxy import host_map, metrics
from vcmanager.api_proxy.runtime_api import RuntimeApi, RuntimeApiError

COALESCE_SECONDS = 0.05
"""Delay after a change, so that a burst of changes is one turn."""
RESYNC_SECONDS = 5.0
"""Interval of turns without a change. It bounds the time with an old map after HAProxy restarted
during a turn."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class MapSync:
    """The loop, and its readiness."""

    def __init__(
        self, runtime: RuntimeApi, file: Path, build_map: Callable[[], host_map.HostMap]
    ) -> None:
        """Set the desired map, and the file that HAProxy reads when it starts."""
        self._runtime = runtime
        self._file = file
        self._build_map = build_map
        self._changed = asyncio.Event()
        self._problem = "HAProxy has not been reached yet"

    def wake(self) -> None:
        """Start a turn soon."""
        self._changed.set()

    def check_readiness(self) -> str:
        """Return why the pod must not get connections, or an empty string.

        The file of an earlier run of this program is enough, because HAProxy serves it. So a
        restart while the super cluster's API server is down takes no tenant's API away.
        """
        if not self._file.exists():
            return "the host names of tenants are not known yet"
        return self._problem

    async def run(self, wait_known: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run until cancelled. Nothing is removed until `wait_known` returns."""
        known = asyncio.ensure_future(wait_known())
        backoff = Backoff(base=0.2, ceiling=RESYNC_SECONDS)
        try:
            while True:
                delay = RESYNC_SECONDS
                try:
                    await self._run_turn(is_known=known.done())
                    self._problem = ""
                    backoff.reset()
                except (RuntimeApiError, OSError, ValueError) as problem:
                    delay = backoff.next()
                    metrics.MAP_FAILURES.inc()
                    if self._problem != str(problem):
                        _log.warning("api_proxy.map_failed", problem=str(problem))
                    self._problem = str(problem)
                await self._wait(delay, known)
        finally:
            known.cancel()

    async def _run_turn(self, *, is_known: bool) -> None:
        if not is_known:
            await self._runtime.read("show version")
            return
        self._changed.clear()
        desired = self._build_map()
        await asyncio.to_thread(self._write_file, host_map.format_file(desired))
        actual = host_map.parse_answer(await self._runtime.read(f"show map {self._file}"))
        commands = host_map.build_commands(str(self._file), desired, actual)
        await self._runtime.write(commands)
        metrics.HOSTS.set(len(desired))
        if commands:
            _log.info("api_proxy.map_changed", hosts=len(desired), commands=len(commands))

    def _write_file(self, text: str) -> None:
        """Write the file as a whole, if it changed. HAProxy may read it at any time."""
        with contextlib.suppress(FileNotFoundError):
            if self._file.read_text() == text:
                return
        scratch = self._file.with_suffix(".new")
        scratch.write_text(text)
        scratch.rename(self._file)

    async def _wait(self, delay: float, known: asyncio.Future[None]) -> None:
        """Wait for a change, or for the delay."""
        changed = asyncio.ensure_future(self._changed.wait())
        waited: list[asyncio.Future[Any]] = [changed] if known.done() else [changed, known]
        try:
            done, _ = await asyncio.wait(waited, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if done:
            await asyncio.sleep(COALESCE_SECONDS)
