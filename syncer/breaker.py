"""A tenant that does not answer costs the others nothing.

Owns one breaker per tenant: after some failures in a row its keys are put off without a request,
and single probes find out when it is back. Must not know what is asked. Hazard: only silence opens
it; an answer, whatever it says, proves that the tenant is there.
"""

import time
from collections.abc import Callable
from typing import Any

from kubeio import Object, errors
from kubeio.backoff import Backoff
from kubeio.client import Client
from kubeio.endpoint import Endpoint
from kubeio.worker import Wait

DEADLINE_SECONDS = 5.0
"""Longest answer of a tenant's API that is waited for."""
FAILURES = 5
"""Silences in a row that open the breaker."""


class Breaker:
    """Closed while a tenant answers; open, it lets one probe through at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._backoff = Backoff(base=1.0, ceiling=30.0)
        self._failures = 0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Tell whether the tenant is taken to be silent."""
        return self._failures >= FAILURES

    def check(self) -> None:
        """Raise Wait while the tenant is left alone; lets the next one through as a probe."""
        if not self.is_open:
            return
        left = self._open_until - self._clock()
        if left > 0:
            raise Wait("the tenant's API does not answer", left)
        self._open_until = self._clock() + DEADLINE_SECONDS  # one probe, the others wait for it

    def failed(self) -> None:
        """Count a silence."""
        self._failures += 1
        if self.is_open:
            self._open_until = self._clock() + self._backoff.next()

    def answered(self) -> None:
        """Close: the tenant is there."""
        self._failures = 0
        self._backoff.reset()


class TenantClient(Client):
    """A tenant's API behind its breaker, with the deadline for tenants."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str) -> None:
        super().__init__(endpoint, user_agent=user_agent, connections=8, deadline=DEADLINE_SECONDS)
        self.breaker = Breaker()

    async def _object(self, method: str, path: str, **options: Any) -> Object:
        self.breaker.check()
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
