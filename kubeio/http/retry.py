"""Retry policy of a *single* request, including the server's Retry-After.

Owns which failures are retried and for how long. The work queue retries whole reconciles.

Hazard: a POST that the server may have received must not be repeated. A retry could create a second
object or end in a misleading AlreadyExists.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity

from kubeio import errors

_T = TypeVar("_T")

ATTEMPTS = 4
_BACKOFF = tenacity.wait_random_exponential(multiplier=0.1, max=2.0)


def is_repeatable(problem: BaseException, *, idempotent: bool) -> bool:
    """Return whether a retry may help and cannot do harm.

    A 429 with a delay means that the server has not processed the request. A 503 with a delay means
    that it could not serve the request. Without a delay a rule refused, and only the worker may try
    again.
    """
    if isinstance(problem, errors.Untrusted):
        return False
    if isinstance(problem, errors.NotSent):
        return True
    if isinstance(problem, errors.TooManyRequests):
        return problem.retry_after is not None
    if isinstance(problem, errors.ApiError):
        return idempotent and problem.status == 503 and problem.retry_after is not None
    if isinstance(problem, errors.Timeout | errors.ResponseTooLarge):
        return False  # the deadline is used up, or the next answer is as large
    return idempotent and isinstance(problem, errors.Unavailable)


async def call_with_retries(
    attempt: Callable[[float], Awaitable[_T]],
    *,
    idempotent: bool,
    deadline: float,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> _T:
    """Run `attempt(seconds left)` until it succeeds, must not be repeated, or time is up."""
    ends = clock() + deadline
    try:
        return await attempt(deadline)
    except (errors.ApiError, errors.Unavailable) as problem:
        # The common case, one attempt, skips tenacity.
        if not is_repeatable(problem, idempotent=idempotent):
            raise
        first: errors.ApiError | errors.Unavailable | None = problem

    def wait(state: tenacity.RetryCallState) -> float:
        failed = state.outcome.exception() if state.outcome else None
        return _compute_delay(failed, state)

    def stop(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= ATTEMPTS or clock() + state.upcoming_sleep >= ends

    async def attempt_again() -> _T:
        nonlocal first
        if first is not None:
            problem, first = first, None
            raise problem
        return await attempt(max(ends - clock(), 0.001))

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(lambda e: is_repeatable(e, idempotent=idempotent)),
        wait=wait,
        stop=stop,
        sleep=sleep,
        reraise=True,
    )
    return await retrying(attempt_again)


def _compute_delay(problem: BaseException | None, state: tenacity.RetryCallState) -> float:
    told = getattr(problem, "retry_after", None)
    return told if told is not None else _BACKOFF(state)
