"""Workers take keys from a queue, reconcile them, and turn what comes out into what is next.

Owns the vocabulary of results (Done, Again, Wait, errors) and the one place where every exception
is caught, so that a poisonous key never ends the process. Knows nothing of what a reconcile does.
Hazards: a cancelled reconcile may have written; the next one starts from what it observes. And one
that has an error where it was cancelled must not keep its worker, and with it the process.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog

from kubeio import errors
from kubeio.controller.fair_queue import FairQueue, QueueClosed
from telemetry import logs, metrics

K = TypeVar("K", bound=Hashable)

CONFLICTS_AT_ONCE = 5
"""Conflicts in a row that are retried without a delay; after them somebody fights us."""


MOST_TOLD = 30.0
"""Seconds that a server can have a key wait, whatever it tells: a tenant's says what it likes."""
_MANY_TOLD = 1024
TROUBLED = 2.0
"""How much longer a key waits whose server has failed itself, as with a store that is full."""


@dataclass(frozen=True, slots=True)
class Done:
    """The key is as it should be."""


@dataclass(frozen=True, slots=True)
class Again:
    """The key is as it should be until something is due."""

    after: float
    """Seconds."""


Verdict = Done | Again


class Wait(Exception):  # noqa: N818 - no error: something else has to happen first
    """Raised by a reconcile that cannot go on yet; not logged as an error."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        """Say for what; without `after` the key's own growing delay applies.

        What wakes the key meanwhile does not make that delay longer.
        """
        super().__init__(reason)
        self.reason = reason
        self.after = after


_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Worker(Generic[K]):
    """A number of coroutines that work on one queue."""

    def __init__(
        self,
        queue: FairQueue[K],
        reconcile: Callable[[K], Awaitable[Verdict]],
        *,
        name: str,
        count: int = 16,
        fields: Callable[[K], Mapping[str, str]] | None = None,
        deadline: float = 120.0,
    ) -> None:
        """`fields` names the key in logs; a reconcile that takes longer than `deadline` failed."""
        self._queue = queue
        self._reconcile = reconcile
        self._name = name
        self._metrics = metrics.ReconcileMetrics(name, workers=count, busy=queue.in_hand)
        self._count = count
        self._fields = fields or (lambda key: {"key": str(key)})
        self._deadline = deadline
        self._conflicts: dict[K, int] = {}
        self._told: dict[K, float] = {}
        """When keys may be worked on again whose server said so, by the monotonic clock."""
        self._many_told = _MANY_TOLD
        """How many of these there may be before those that are over are forgotten."""

    async def run(self) -> None:
        """Work until the queue is closed and what is in hand is finished, or until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._loop(), name=f"{self._name}-{number}")

    async def _loop(self) -> None:
        task = asyncio.current_task()
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self.work(key)
            finally:
                self._queue.done(key)
            if task is not None and task.cancelling():
                raise asyncio.CancelledError  # the reconcile has made something else of it

    async def work(self, key: K) -> None:
        """Reconcile one key and settle what becomes of it."""
        started = time.monotonic()
        if self._told and (left := self._told.get(key, started) - started) > 0:
            self._queue.add_after(key, left)  # whoever woke it knows nothing of the server
            return
        self._told.pop(key, None)
        subject = logs.SUBJECT.set(partial(self._fields, key))
        try:
            async with asyncio.timeout(self._deadline):
                verdict = await self._reconcile(key)
        except Exception as problem:  # noqa: BLE001 - the one place, see the module's docstring
            result = self._failed(key, problem)
        else:
            result = self._succeeded(key, verdict)
        finally:
            logs.SUBJECT.reset(subject)
        self._metrics.ended(result, time.monotonic() - started)

    def _succeeded(self, key: K, verdict: Verdict) -> str:
        self._queue.forget(key)
        self._conflicts.pop(key, None)
        if isinstance(verdict, Again):
            self._queue.add_after(key, verdict.after)
            return "requeue_after"
        return "success"

    def _failed(self, key: K, problem: Exception) -> str:
        """Choose the key's next turn; the order matters, as some errors are several things."""
        if isinstance(problem, errors.Conflict):
            return self._conflicted(key, problem)
        self._conflicts.pop(key, None)
        if isinstance(problem, Wait):
            delay = self._later(key, problem.after, patient=True)
            _log.debug("reconcile.waits", reason=problem.reason, again_seconds=delay)
            return "wait"
        if isinstance(problem, errors.Terminal):
            self._queue.forget(key)
            _log.warning("reconcile.gave_up", problem=str(problem))
            return "error"
        attempt = self._queue.failures(key) + 1
        if isinstance(problem, errors.KubeError):
            times = TROUBLED if isinstance(problem, errors.ServerProblem) else 1.0
            delay = self._when_told(key, getattr(problem, "retry_after", None), times)
            _log.warning(
                "reconcile.failed", problem=str(problem), attempt=attempt, again_seconds=delay
            )
            return "requeue" if isinstance(problem, errors.Unavailable) else "error"
        delay = self._later(key, None)
        if isinstance(problem, TimeoutError):
            _log.error(
                "reconcile.too_slow",
                deadline_seconds=self._deadline,
                attempt=attempt,
                again_seconds=delay,
            )
            return "error"
        _log.error("reconcile.crashed", attempt=attempt, again_seconds=delay, exc_info=problem)
        return "error"

    def _conflicted(self, key: K, problem: errors.Conflict) -> str:
        """The caches are behind, or somebody was faster: look again at once, but not for ever."""
        count = self._conflicts[key] = self._conflicts.get(key, 0) + 1
        if count <= CONFLICTS_AT_ONCE:
            self._queue.add(key)
        else:
            delay = self._later(key, None)
            _log.warning(
                "reconcile.conflicts", problem=str(problem), in_a_row=count, again_seconds=delay
            )
        return "conflict"

    def _when_told(self, key: K, told: float | None, times: float) -> float:
        """Have a key wait for as long as its server says, also when somebody wakes it before."""
        if not told:
            return round(self._queue.retry(key, times=times), 3)
        now, told = time.monotonic(), min(told, MOST_TOLD)
        if len(self._told) > self._many_told:
            self._told = {each: due for each, due in self._told.items() if due > now}
            # Twice what is left, or each one more would go through all of them.
            self._many_told = max(_MANY_TOLD, 2 * len(self._told))
        self._told[key] = now + told
        return self._later(key, told)

    def _later(self, key: K, told: float | None, *, patient: bool = False) -> float:
        if told is None:
            return round(self._queue.retry(key, patient=patient), 3)
        self._queue.add_after(key, told)
        return told
