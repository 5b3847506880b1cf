"""An API that does not answer costs those who need others nothing.

Owns one breaker per tenant and per target: after some failures in a row its keys are put off
without a request, and single probes find out when it is back. Owns, too, what a tenant that answers
keeps refusing. Must not know what is asked. Hazard: only silence opens it; an answer, whatever it
says, proves that somebody is there.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import Wait
from kubeio.http.transport_protocol import Fence

DEADLINE_SECONDS = 5.0
"""Longest answer of such an API that is waited for."""
FAILURES = 5
"""Silences in a row that open the breaker."""
REFUSED = 3
"""Refusals of one kind of write, and none taken in between, that are more than one bad object."""
REFUSING_SECONDS = 10.0
"""How long that has to last before it is said."""
FORGOTTEN_SECONDS = 400.0
"""Longer than any key waits for its next try."""


class Breaker:
    """Closed while an API answers; open, it lets one probe through at a time."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, whose: str = "the tenant's"
    ) -> None:
        """`whose` API it is, for logs."""
        self._clock = clock
        self._whose = whose
        self._backoff = Backoff(base=1.0, ceiling=30.0)
        self._failures = 0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Tell whether the API is taken to be silent."""
        return self._failures >= FAILURES

    def check(self) -> None:
        """Raise Wait while the API is left alone; lets the next one through as a probe."""
        if not self.is_open:
            return
        left = self._open_until - self._clock()
        if left > 0:
            raise Wait(f"{self._whose} API does not answer", left)
        self._open_until = self._clock() + DEADLINE_SECONDS  # one probe, the others wait for it

    def failed(self) -> None:
        """Count a silence."""
        self._failures += 1
        if self.is_open:
            self._open_until = self._clock() + self._backoff.next()

    def answered(self) -> None:
        """Close: somebody is there."""
        self._failures = 0
        self._backoff.reset()


class _Refused(NamedTuple):
    since: float
    last: float
    times: int
    said: str


class Refusals:
    """Which kinds of writes a tenant keeps refusing: a webhook that denies all, lost rights.

    One object that is refused says nothing; it is when nothing of a kind is taken any more.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, _Refused] = {}

    def refused(self, what: str, said: str) -> None:
        """Count a refused write."""
        now = self._clock()
        before = self._since.get(what)
        since, count = (before.since, before.times) if before is not None else (now, 0)
        self._since[what] = _Refused(since, now, count + 1, said)

    def __bool__(self) -> bool:
        """Tell whether anything was refused lately."""
        return bool(self._since)

    def accepted(self, what: str) -> None:
        """Take note of a write that was taken."""
        self._since.pop(what, None)

    def problem(self) -> str:
        """Return what is refused, as half a sentence; empty while nothing is for long."""
        now = self._clock()
        # What was refused may be gone, and then nobody tries it any more.
        self._since = {k: v for k, v in self._since.items() if now - v.last < FORGOTTEN_SECONDS}
        lasting = sorted(
            what
            for what, found in self._since.items()
            if found.times >= REFUSED and now - found.since >= REFUSING_SECONDS
        )
        if not lasting:
            return ""
        return f"writes of {', '.join(lasting)} are refused: {self._since[lasting[0]].said}"


def _written(method: str, path: str) -> str:
    """Return what a request writes, `pods/status`, or empty when it only reads.

    A request for a token or a review creates nothing that could be refused for good.
    """
    if method == "GET":
        return ""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join([*parts[:1], *parts[2:3]])


def _is_refusal(problem: errors.ApiError) -> bool:
    if problem.has_cause("NamespaceTerminating"):
        return False
    # A webhook that cannot be called answers as a broken server does.
    return isinstance(
        problem, errors.Forbidden | errors.BadRequest | errors.Invalid | errors.ServerProblem
    )


class GuardedClient(Client):
    """An API behind its breaker, with the deadline for what may be anybody's."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        whose: str,
        connections: int,
        user_agent: str,
        fence: Fence | None = None,
    ) -> None:
        super().__init__(
            endpoint,
            user_agent=user_agent,
            connections=connections,
            deadline=DEADLINE_SECONDS,
            fence=fence,
        )
        self.breaker = Breaker(whose=whose)

    async def _object(self, method: str, path: str, **options: Any) -> Object:
        self.breaker.check()
        return await self._broken(method, path, **options)

    async def _broken(self, method: str, path: str, **options: Any) -> Object:
        """Ask, and let the breaker know how that went."""
        try:
            answer = await super()._object(method, path, **options)
        except errors.Unavailable as problem:
            if isinstance(problem, errors.Timeout) or not isinstance(problem, errors.ApiError):
                self.breaker.failed()
            else:
                self.breaker.answered()  # a 500 of one webhook is no silence
            raise
        except errors.ApiError:
            self.breaker.answered()
            raise
        self.breaker.answered()
        return answer


class TenantClient(GuardedClient):
    """A tenant's API behind its breaker."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str, fence: Fence | None = None) -> None:
        super().__init__(
            endpoint, whose="the tenant's", connections=8, user_agent=user_agent, fence=fence
        )
        self.refused_writes = Refusals()

    async def _object(self, method: str, path: str, **options: Any) -> Object:
        self.breaker.check()
        try:
            answer = await self._broken(method, path, **options)
        except errors.ApiError as problem:
            what = _written(method, path)
            if what and _is_refusal(problem):
                self.refused_writes.refused(what, problem.said)
            raise
        if self.refused_writes:
            self.refused_writes.accepted(_written(method, path))
        return answer
