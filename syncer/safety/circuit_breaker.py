"""Circuit breakers and refused writes, one memory per tenant and per target.

An API that does not answer must cost the other tenants nothing. After `FAILURES_TO_OPEN` failures
in a row its keys are delayed without a request, and single probes detect its return. Owns also the
writes that a tenant keeps refusing. Must not know the requests. Hazard: only silence may open a
breaker. Any answer, even an error, proves that a server is present.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import NotReadyYet
from kubeio.http.rest import ClientOptions
from kubeio.http.transport_protocol import Fence
from syncer.safety.cache_limits import MAX_TENANT_LINE_BYTES, MAX_TENANT_RESPONSE_BYTES

REQUEST_DEADLINE_SECONDS = 5.0
"""Request timeout in seconds for such an API."""
FAILURES_TO_OPEN = 5
"""Number of failures in a row that open the breaker."""
REFUSALS_TO_REPORT = 3
"""Number of refusals of one kind of write, without a success between them, that are reported. Fewer
may be one bad object.
"""
REFUSING_REPORT_SECONDS = 10.0
"""Time in seconds that the refusals must last before they are reported."""
REFUSAL_EXPIRY_SECONDS = 400.0
"""Time in seconds after which refusals are forgotten. It is longer than any key waits for its
retry.
"""


class CircuitBreaker:
    """A circuit breaker. Closed while an API answers. Open, it allows one probe at a time."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, owner: str = "the tenant's"
    ) -> None:
        """`owner` is the owner of the API in logs, such as "the tenant's"."""
        self._clock = clock
        self._owner = owner
        self._backoff = Backoff(base=1.0, ceiling=30.0)
        self._failures = 0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Return True if the API counts as silent."""
        return self._failures >= FAILURES_TO_OPEN

    def check_closed(self) -> None:
        """Raise Wait while the breaker delays requests. Otherwise allow the next one as a probe."""
        if not self.is_open:
            return
        left = self._open_until - self._clock()
        if left > 0:
            raise NotReadyYet(f"{self._owner} API does not answer", left)
        self._open_until = self._clock() + REQUEST_DEADLINE_SECONDS  # one probe at a time

    def count_failure(self) -> None:
        """Count a request without answer."""
        self._failures += 1
        if self.is_open:
            self._open_until = self._clock() + self._backoff.next()

    def record_answer(self) -> None:
        """Close the breaker after an answer."""
        self._failures = 0
        self._backoff.reset()


class _RefusedWrite(NamedTuple):
    since: float
    last: float
    refusals: int
    message: str


class RefusedWrites:
    """Kinds of writes that a tenant keeps refusing, because of a webhook or missing rights.

    One refused object is no problem. It is one when no write of a kind succeeds any longer.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, _RefusedWrite] = {}

    def count_refusal(self, what: str, said: str) -> None:
        """Count a refused write."""
        now = self._clock()
        before = self._since.get(what)
        since, count = (before.since, before.refusals) if before is not None else (now, 0)
        self._since[what] = _RefusedWrite(since, now, count + 1, said)

    def __bool__(self) -> bool:
        """Return True if a write was refused lately."""
        return bool(self._since)

    def record_accepted(self, what: str) -> None:
        """Forget the refusals of a kind of write after a success."""
        self._since.pop(what, None)

    def describe_refused(self) -> str:
        """Return the lasting refusals as half a sentence, or an empty string."""
        now = self._clock()
        # A refused object may have been deleted, and then the write is never retried.
        self._since = {
            k: v for k, v in self._since.items() if now - v.last < REFUSAL_EXPIRY_SECONDS
        }
        lasting = sorted(
            what
            for what, found in self._since.items()
            if found.refusals >= REFUSALS_TO_REPORT and now - found.since >= REFUSING_REPORT_SECONDS
        )
        if not lasting:
            return ""
        return f"writes of {', '.join(lasting)} are rejected: {self._since[lasting[0]].message}"


def _describe_write(method: str, path: str) -> str:
    """Return the subject of a write, such as `pods/status`, or an empty string for reads.

    Requests for a token or a review create no object that could be refused for good.
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
    # A webhook that cannot be called answers like a broken server.
    return isinstance(
        problem, errors.Forbidden | errors.BadRequest | errors.Invalid | errors.ServerError
    )


class GuardedClient(Client):
    """A client with a circuit breaker, and a deadline because the server may be hostile."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        owner: str,
        connections: int,
        user_agent: str,
        fence: Fence | None = None,
        max_response_bytes: int | None = None,
        max_line_bytes: int | None = None,
    ) -> None:
        super().__init__(
            endpoint,
            ClientOptions(
                user_agent=user_agent,
                connections=connections,
                deadline=REQUEST_DEADLINE_SECONDS,
                fence=fence,
                max_response_bytes=max_response_bytes,
                max_line_bytes=max_line_bytes,
            ),
        )
        self.breaker = CircuitBreaker(owner=owner)

    async def _object(self, method: str, path: str, **options: Any) -> Object:
        self.breaker.check_closed()
        return await self._call_through_breaker(method, path, **options)

    async def _call_through_breaker(self, method: str, path: str, **options: Any) -> Object:
        """Send a request and record its result in the breaker."""
        try:
            answer = await super()._object(method, path, **options)
        except errors.Unavailable as problem:
            is_answer = isinstance(problem, errors.ApiError | errors.ResponseTooLarge)
            if isinstance(problem, errors.Timeout) or not is_answer:
                self.breaker.count_failure()
            else:
                self.breaker.record_answer()  # a 500 of one webhook is no silence
            raise
        except errors.ApiError:
            self.breaker.record_answer()
            raise
        self.breaker.record_answer()
        return answer


class TenantClient(GuardedClient):
    """Client of a tenant's API with a circuit breaker and a memory of refused writes."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str, fence: Fence | None = None) -> None:
        super().__init__(
            endpoint,
            owner="the tenant's",
            connections=8,
            user_agent=user_agent,
            fence=fence,
            max_response_bytes=MAX_TENANT_RESPONSE_BYTES,
            max_line_bytes=MAX_TENANT_LINE_BYTES,
        )
        self.refused_writes = RefusedWrites()

    async def _object(self, method: str, path: str, **options: Any) -> Object:
        self.breaker.check_closed()
        try:
            answer = await self._call_through_breaker(method, path, **options)
        except errors.ApiError as problem:
            what = _describe_write(method, path)
            if what and _is_refusal(problem):
                self.refused_writes.count_refusal(what, problem.server_message)
            raise
        if self.refused_writes:
            self.refused_writes.record_accepted(_describe_write(method, path))
        return answer
