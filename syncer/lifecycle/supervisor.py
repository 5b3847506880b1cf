"""Supervision of loops: one task per member, restarted with backoff, ended with its object.

Owns the tasks of tenants and targets, their retry delays, and the record of a change. Must not know
what a member is, because its manager passes the step that one turn runs. Hazard: a step must be
level-triggered, because changes between two turns are merged into one. A step that relies on each
single event misses some.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from kubeio import errors
from kubeio.backoff import Backoff
from kubeio.controller.worker import NotReadyYet
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS

STABLE_SECONDS = 60.0
"""Time in seconds after which a connection counts as stable. Shorter connections increase the retry
delay.
"""
AT_ONCE = 0.0
"""Result of a step: the next turn begins without a pause."""
UNTIL_CHANGED = float("inf")
"""Result of a step: the next turn begins with the next change."""
_RETRY_SECONDS = 1.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class SupervisedLoop:
    """A loop that runs a step again after each change, and after each failure with a delay."""

    def __init__(self, name: str, *, max_retry_seconds: float) -> None:
        """`name` identifies the member in the log."""
        self._name = name
        self._backoff = Backoff(base=_RETRY_SECONDS, ceiling=max_retry_seconds)
        self._changed = asyncio.Event()

    @property
    def is_changed(self) -> bool:
        """Whether a change was recorded since this turn began."""
        return self._changed.is_set()

    def wake(self) -> None:
        """Record a change. It ends the pause between two turns."""
        self._changed.set()

    def get_retry_seconds(self) -> float:
        """Count a failure and return the delay in seconds until the next attempt."""
        return self._backoff.next()

    async def run(
        self,
        step: Callable[[], Awaitable[float | None]],
        *,
        pause: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        """Run turns until a step returns None, because its object no longer exists.

        A step returns the seconds until the next turn. `pause` replaces `wait_changed` between two
        turns.
        """
        pause = pause or self.wait_changed
        while True:
            self._changed.clear()
            try:
                seconds = await step()
                if seconds is None:
                    return
                if seconds > AT_ONCE:
                    await pause(seconds)
            except MALFORMED_OBJECT_ERRORS as problem:  # otherwise it would end all other loops
                _log.error("supervisor.stumbled", member=self._name, exc_info=problem)
                await self.wait_changed(self.get_retry_seconds())

    async def wait_changed(self, seconds: float = UNTIL_CHANGED) -> None:
        """Wait for a change or a timeout, whichever comes first. The change stays recorded."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == UNTIL_CHANGED else seconds):
                await self._changed.wait()

    async def wait_next_change(self, seconds: float = UNTIL_CHANGED) -> None:
        """Wait as `wait_changed` does, and forget the change, because the caller handles it."""
        await self.wait_changed(seconds)
        self._changed.clear()

    async def run_connection(
        self,
        connection: Coroutine[Any, Any, None],
        *,
        until: Coroutine[Any, Any, None],
        beside: Coroutine[Any, Any, None] | None = None,
        drain: Callable[[], Awaitable[None]] | None = None,
    ) -> str:
        """Run a connection until it ends or `until` returns, then cancel both.

        `beside` runs during the same time, and its failure ends the connection. `drain` is awaited
        before the cancellation. Returns the reason of a failure, or an empty string. A stable
        connection resets the retry delay.
        """
        began = asyncio.get_running_loop().time()
        others = [asyncio.ensure_future(beside)] if beside is not None else []
        running, watching = asyncio.ensure_future(connection), asyncio.ensure_future(until)
        tasks = (running, watching, *others)
        try:
            while not (running.done() or watching.done() or any(map(_has_failed, others))):
                pending = [task for task in tasks if not task.done()]
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if drain is not None:
                await drain()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if asyncio.get_running_loop().time() - began >= STABLE_SECONDS:
            self._backoff.reset()
        return next(filter(None, map(self._describe_end, (running, *others))), "")

    def _describe_end(self, running: "asyncio.Future[None]") -> str:
        """Return why a connection failed, or an empty string if it was cancelled."""
        if running.cancelled():
            return ""
        problem = running.exception()
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        if problem is None:
            return ""
        if not isinstance(problem, errors.KubeError | NotReadyYet):
            _log.error("supervisor.crashed", member=self._name, exc_info=problem)
        return str(problem) or type(problem).__name__


def _has_failed(task: "asyncio.Future[None]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


class Supervisor:
    """One supervised loop per member, which is a tenant or a target."""

    def __init__(
        self,
        kind: str,
        *,
        step: Callable[[str, SupervisedLoop], Awaitable[float | None]],
        max_retry_seconds: float,
    ) -> None:
        """`step` runs one turn of a member, as for `SupervisedLoop.run`.

        `kind` names the members in the log and in the names of their tasks.
        """
        self._kind = kind
        self._step = step
        self._max_retry_seconds = max_retry_seconds
        self._loops: dict[str, SupervisedLoop] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self, subscribe: Callable[[asyncio.TaskGroup], None]) -> None:
        """Supervise until cancelled. `subscribe` connects the events that wake members."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            subscribe(group)
            await asyncio.Event().wait()

    def wake(self, name: str) -> None:
        """Wake the loop of a member, or start it."""
        assert self._group is not None  # noqa: S101 - events are subscribed by run
        loop = self._loops.get(name)
        if loop is None:
            loop = self._loops[name] = SupervisedLoop(
                f"{self._kind} {name}", max_retry_seconds=self._max_retry_seconds
            )
            self._group.create_task(self._supervise(name, loop), name=f"{self._kind}-{name}")
        loop.wake()

    async def _supervise(self, name: str, loop: SupervisedLoop) -> None:
        """Run the loop of a member until its object no longer exists."""
        await loop.run(lambda: self._step(name, loop))
        self._loops.pop(name, None)
