"""Leader election: hold a Lease, run a scope while it is held, and release it at the end.

Owns acquiring, renewing and fencing. The scope is cancelled before another process could acquire
the lease. `check_fence` stops the first write of a process that was suspended meanwhile. Times are
from the machine's own clock, which continues during suspension. The wall clock is only written for
people.

Hazard: writes must have preconditions. A write that was sent in time and is answered late overlaps
with the next holder.

Hazard: the lease's own client must have no fence. Otherwise the lease could not be acquired.
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from telemetry import metrics
from tenancy.resources import LEASES

T = TypeVar("T")

LEASE_DURATION_SECONDS = 7.0
"""Lease duration in seconds after the last renewal seen.

Then other processes may acquire the lease.
"""
RENEW_DEADLINE_SECONDS = 5.5
"""Renewal deadline in seconds after the last renewal sent. Then the holder stops by itself."""
RETRY_PERIOD_SECONDS = 1.25
"""Interval between two renewals in seconds."""
ACQUIRE_INTERVAL_SECONDS = 0.75
"""Interval between two reads of a waiting candidate in seconds. Up to a fifth is added."""
HANDOVER_SECONDS = LEASE_DURATION_SECONDS + 2 * 1.2 * ACQUIRE_INTERVAL_SECONDS
"""Longest time in seconds until a vanished holder is replaced.

It is the full duration, a late first read of the last renewal, and a late read of the expiry.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class LeaseLostError(Exception):
    """The scope was cancelled:

    the lease was not renewed in time, or another process acquired it.
    """


def build_identity(pod: str, uid: str) -> str:
    """Return the identity of a process: pod and pod UID, or a random UID if that is not known.

    A container is restarted only after its process has certainly ended. The new process is then the
    same holder and need not wait until the lease of the old process expires.
    """
    return f"{pod}_{uid or uuid.uuid4()}"


def monotonic_boottime() -> float:
    """Return seconds of a clock that continues even while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseObserver:
    """Observer of the renewals of a lease that trusts no wall clock."""

    def __init__(self, clock: Callable[[], float] = monotonic_boottime) -> None:
        """Start without an observation."""
        self._clock = clock
        self._record: tuple[Any, ...] | None = None
        self._since = 0.0

    def is_held(self, lease: Object | None, *, by_other_than: str = "") -> bool:
        """Return whether a lease is held, given its newest state (None: it does not exist).

        A record is trusted for its whole duration since it was first seen here. So the first answer
        after a start may be True although the holder ended long ago.
        """
        if lease is None:
            return False
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        record = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._record:
            self._record, self._since = record, self._clock()
        if not holder or holder == by_other_than:
            return False
        duration = float(spec.get("leaseDurationSeconds") or LEASE_DURATION_SECONDS)
        return self._clock() < self._since + duration


class LeaderElector:
    """One candidate for one Lease object."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration: float = LEASE_DURATION_SECONDS,
        renew_deadline: float = RENEW_DEADLINE_SECONDS,
        period: float = RETRY_PERIOD_SECONDS,
        acquire_interval: float = ACQUIRE_INTERVAL_SECONDS,
        clock: Callable[[], float] = monotonic_boottime,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Set up a candidate. Only one process may use an `build_identity` at a time."""
        if not renew_deadline < duration:
            raise ValueError(
                "renew_deadline must be shorter than duration, otherwise writes are not fenced"
            )
        self.identity = identity
        self.is_held = False
        self._client = client
        self._namespace, self._name = namespace, name
        self._duration, self._renew_deadline = duration, renew_deadline
        self._period, self._acquire_interval = period, acquire_interval
        self._clock, self._sleep, self._now = clock, sleep, now
        self._observer = LeaseObserver(clock)
        self._lease: Object | None = None
        self._renewed_at = 0.0
        self._acquired = ""
        self._logger = _log.bind(lease=f"{namespace}/{name}", identity=identity)

    async def run(self, scope: Callable[[], Awaitable[T]]) -> T:
        """Wait for the lease, run `scope` while it is held, and release it.

        Raises LeaseLost after the scope was cancelled because the lease was lost.
        """
        await self._acquire()
        self._set_held(held=True)
        work = asyncio.ensure_future(scope())
        renewing = asyncio.ensure_future(self._renew_until_lost())
        try:
            await asyncio.wait((work, renewing), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            await self._cancel_and_wait(work)
            raise LeaseLostError(renewing.result())
        finally:
            # Also on cancellation of this coroutine the work must end before the lease is released.
            await self._cancel_and_wait(work)
            await self._cancel_and_wait(renewing)
            self._set_held(held=False)
            await self._release()

    def check_fence(self) -> None:
        """Raise Fenced unless the lease is certainly held at this moment. Call before each write.

        A suspended process resumes at any point of its work, long before a cancellation can reach
        it. Only the clock reveals the suspension at once.
        """
        if not self.is_held or self._clock() >= self._renewed_at + self._renew_deadline:
            raise errors.Fenced(
                f"not written: the Lease {self._namespace}/{self._name} was not renewed in time,"
                " and another process may hold it"
            )

    async def _cancel_and_wait(self, task: "asyncio.Future[Any]") -> None:
        """Cancel a task and wait for its end. An exception of it is logged."""
        if task.done():
            return
        task.cancel()
        await asyncio.wait((task,))
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._logger.error("lease.scope_failed", exc_info=problem)

    async def _acquire(self) -> None:
        waiting = ""
        while True:
            try:
                if await self._try_acquire():
                    return
                spec = (self._lease or {}).get("spec") or {}
                holder = spec.get("holderIdentity") or ""
                if holder != waiting:
                    waiting = holder
                    self._logger.info("lease.waiting", holder=holder)
            except errors.KubeError as problem:
                self._logger.warning("lease.unreachable", problem=str(problem))
            await self._sleep(self._acquire_interval * random.uniform(1.0, 1.2))  # noqa: S311 - jitter

    async def _try_acquire(self) -> bool:
        """Read the lease once, and acquire it if it is not held.

        Returns whether it was acquired.
        """
        self._lease = await self._read()
        if self._observer.is_held(self._lease, by_other_than=self.identity):
            return False
        started = self._clock()
        try:
            self._lease = await self._write(_format_micro_time(self._now()))
        except (errors.Conflict, errors.AlreadyExists):
            return False  # another candidate was faster
        self._renewed_at = started
        self._acquired = str(self._lease["spec"]["acquireTime"])
        return True

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(
                LEASES, self._name, namespace=self._namespace, deadline=self._renew_deadline / 2
            )
        except errors.NotFound:
            return None

    async def _write(self, acquired: str) -> Object:
        """Create the Lease or replace the record that was read.

        `acquired` distinguishes processes with the same identity. If two run at once against all
        promises, the holder is the process that acquired the lease later.
        """
        stamp = _format_micro_time(self._now())
        before = self._lease or {}
        spec = dict(before.get("spec") or {})
        if spec.get("holderIdentity") != self.identity:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + bool(self._lease)
        spec |= {
            "acquireTime": acquired,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._duration),
            "renewTime": stamp,
        }
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            **before,
            "metadata": before.get("metadata")
            or {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        deadline = self._renew_deadline / 2
        if self._lease is None:
            return await self._client.create(LEASES, body, deadline=deadline)
        return await self._client.replace(LEASES, body, deadline=deadline)

    async def _renew_until_lost(self) -> str:
        """Renew until that fails for too long. Returns why the lease is lost."""
        while True:
            await self._sleep(self._period)
            problem = await self._renew()
            if not problem:
                continue
            if self._clock() - self._renewed_at + self._period >= self._renew_deadline:
                return problem
            if self._lease is None or not self._is_ours(self._lease):
                return problem

    async def _renew(self) -> str:
        """Renew once. Returns a sentence about the failure, or an empty string."""
        started = self._clock()
        left = max(self._renewed_at + self._renew_deadline - started, 0.001)
        try:
            async with asyncio.timeout(left):
                self._lease = await self._write(self._acquired)
        except (errors.Conflict, errors.NotFound):
            return await self._check_holder()
        except TimeoutError:
            return "the lease could not be renewed in time"
        except errors.KubeError as problem:
            self._logger.warning("lease.renewal_failed", problem=str(problem))
            return f"the lease could not be renewed: {problem}"
        self._renewed_at = started
        return ""

    async def _check_holder(self) -> str:
        """Read the Lease after a conflict, and return a sentence about its holder.

        Another process wrote to the Lease, but the holder may still be this process.
        """
        try:
            self._lease = await self._read()
        except errors.KubeError as problem:
            return f"the lease could not be read: {problem}"
        if self._lease is None:
            return "the Lease object was deleted"
        holder = (self._lease.get("spec") or {}).get("holderIdentity") or "nobody"
        return f"the lease is held by {holder}"

    def _is_ours(self, lease: Object) -> bool:
        spec = lease.get("spec") or {}
        found = spec.get("holderIdentity"), spec.get("acquireTime")
        return found == (self.identity, self._acquired)

    async def _release(self) -> None:
        """Clear the holder, best effort, so that the next candidate need not wait.

        An interrupted renewal may have succeeded, so after a conflict the Lease is read again once.
        """
        with contextlib.suppress(errors.KubeError):
            try:
                await self._release_lease()
            except errors.Conflict:
                self._lease = await self._read()
                await self._release_lease()

    async def _release_lease(self) -> None:
        if self._lease is None or not self._is_ours(self._lease):
            return
        spec = dict(self._lease["spec"])
        spec |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        body = {**self._lease, "spec": spec}
        await self._client.replace(LEASES, body, deadline=self._period)
        self._logger.info("lease.released")

    def _set_held(self, *, held: bool) -> None:
        self.is_held = held
        metrics.LEADER.labels(self._name).set(1 if held else 0)
        if held:
            self._logger.info("lease.acquired")


def _format_micro_time(moment: datetime) -> str:
    """Return a moment as the API's MicroTime: UTC with six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
