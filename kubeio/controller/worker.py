"""Workers that take keys from a queue, reconcile them, and requeue them by the result.

Owns the results (Done, Again, Wait, errors) and the one place that catches every exception, so that
a bad key never ends the process. Knows nothing of what a reconcile does.

Hazard: a reconcile must start from what it observes. A cancelled reconcile may have written.

Hazard: a worker must end although its cancelled reconcile raised another error. Otherwise it would
keep running, and the process with it.
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

IMMEDIATE_CONFLICT_RETRIES = 5
"""Conflicts in a row that are retried at once. More means that another writer interferes."""


MAX_RETRY_AFTER_SECONDS = 30.0
"""Upper limit of a server's Retry-After in seconds. A tenant's server may send any number."""
_MAX_RETRY_AFTER_KEYS = 1024
SERVER_ERROR_DELAY_FACTOR = 2.0
"""Factor of the delay after a failure of the server itself, as with a full etcd."""


@dataclass(frozen=True, slots=True)
class Done:
    """The key is reconciled."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """The key is reconciled until a time."""

    after: float
    """Seconds."""


Result = Done | RequeueAfter


class NotReadyYet(Exception):  # noqa: N818 - no error: something else has to happen first
    """The reconcile cannot continue yet. It is not logged as an error."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        """Set what the reconcile waits for. Without `after` the key's own growing delay applies.

        Wake-ups in the meantime do not increase that delay.
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
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        name: str,
        count: int = 16,
        fields: Callable[[K], Mapping[str, str]] | None = None,
        deadline: float = 120.0,
    ) -> None:
        """Set up the workers. `fields` names the key in logs.

        A reconcile fails if it takes longer than `deadline` seconds.
        """
        self._queue = queue
        self._reconcile = reconcile
        self._name = name
        self._metrics = metrics.ReconcileMetrics(name, workers=count, busy=queue.count_processing)
        self._count = count
        self._fields = fields or (lambda key: {"key": str(key)})
        self._deadline = deadline
        self._conflicts: dict[K, int] = {}
        self._retry_after_counts: dict[K, float] = {}
        """Earliest next reconcile of keys with a Retry-After, by the monotonic clock."""
        self._max_retry_after_keys = _MAX_RETRY_AFTER_KEYS
        """Size at which expired entries are removed."""

    async def run(self) -> None:
        """Work until the queue is closed and started keys are finished, or until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._process_queue(), name=f"{self._name}-{number}")

    async def _process_queue(self) -> None:
        task = asyncio.current_task()
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self.process_key(key)
            finally:
                self._queue.done(key)
            if task is not None and task.cancelling():
                raise asyncio.CancelledError  # the reconcile has replaced the cancellation

    async def process_key(self, key: K) -> None:
        """Reconcile one key and requeue it by the result."""
        started = time.monotonic()
        if (
            self._retry_after_counts
            and (left := self._retry_after_counts.get(key, started) - started) > 0
        ):
            self._queue.add_after(key, left)  # the wake-up ignores the server's Retry-After
            return
        self._retry_after_counts.pop(key, None)
        subject = logs.LOG_SUBJECT.set(partial(self._fields, key))
        try:
            async with asyncio.timeout(self._deadline):
                verdict = await self._reconcile(key)
        except Exception as problem:  # noqa: BLE001 - the one place, see the module's docstring
            result = self._handle_error(key, problem)
        else:
            result = self._handle_result(key, verdict)
        finally:
            logs.LOG_SUBJECT.reset(subject)
        self._metrics.count_reconcile(result, time.monotonic() - started)

    def _handle_result(self, key: K, verdict: Result) -> str:
        self._queue.forget(key)
        self._conflicts.pop(key, None)
        if isinstance(verdict, RequeueAfter):
            self._queue.add_after(key, verdict.after)
            return "requeue_after"
        return "success"

    def _handle_error(self, key: K, problem: Exception) -> str:
        """Requeue a key after an exception.

        The order matters, as some errors have several classes.
        """
        if isinstance(problem, errors.Conflict):
            return self._handle_conflict(key, problem)
        self._conflicts.pop(key, None)
        if isinstance(problem, NotReadyYet):
            delay = self._requeue_with_backoff(key, problem.after, patient=True)
            _log.debug("reconcile.waiting", reason=problem.reason, retry_seconds=delay)
            return "wait"
        if isinstance(problem, errors.TerminalError):
            self._queue.forget(key)
            _log.warning("reconcile.not_retried", problem=str(problem))
            return "error"
        attempt = self._queue.count_requeues(key) + 1
        if isinstance(problem, errors.KubeError):
            times = SERVER_ERROR_DELAY_FACTOR if isinstance(problem, errors.ServerError) else 1.0
            delay = self._requeue_after_told(key, getattr(problem, "retry_after", None), times)
            _log.warning(
                "reconcile.failed", problem=str(problem), attempt=attempt, retry_seconds=delay
            )
            return "requeue" if isinstance(problem, errors.Unavailable) else "error"
        delay = self._requeue_with_backoff(key, None)
        if isinstance(problem, TimeoutError):
            _log.error(
                "reconcile.deadline_exceeded",
                deadline_seconds=self._deadline,
                attempt=attempt,
                retry_seconds=delay,
            )
            return "error"
        _log.error("reconcile.crashed", attempt=attempt, retry_seconds=delay, exc_info=problem)
        return "error"

    def _handle_conflict(self, key: K, problem: errors.Conflict) -> str:
        """Requeue after a conflict at once, but not without end.

        Either the caches are behind, or another writer was faster.
        """
        count = self._conflicts[key] = self._conflicts.get(key, 0) + 1
        if count <= IMMEDIATE_CONFLICT_RETRIES:
            self._queue.add(key)
        else:
            delay = self._requeue_with_backoff(key, None)
            _log.warning(
                "reconcile.conflicts", problem=str(problem), conflicts=count, retry_seconds=delay
            )
        return "conflict"

    def _requeue_after_told(self, key: K, told: float | None, times: float) -> float:
        """Delay a key for as long as its server demands. A wake-up does not end this delay."""
        if not told:
            return round(self._queue.add_rate_limited(key, times=times), 3)
        now, told = time.monotonic(), min(told, MAX_RETRY_AFTER_SECONDS)
        if len(self._retry_after_counts) > self._max_retry_after_keys:
            self._retry_after_counts = {
                each: due for each, due in self._retry_after_counts.items() if due > now
            }
            # Twice the rest, otherwise each further key would scan all of them.
            self._max_retry_after_keys = max(
                _MAX_RETRY_AFTER_KEYS, 2 * len(self._retry_after_counts)
            )
        self._retry_after_counts[key] = now + told
        return self._requeue_with_backoff(key, told)

    def _requeue_with_backoff(self, key: K, told: float | None, *, patient: bool = False) -> float:
        if told is None:
            return round(self._queue.add_rate_limited(key, patient=patient), 3)
        self._queue.add_after(key, told)
        return told
