"""The policy for repeating a *single* request, including delays that the server tells.

Owns which failures are worth a repetition and for how long. Repeating a whole reconcile is the
queue's business. Hazard: a POST that may have been seen is never repeated, because a second object
or a misleading AlreadyExists would come of it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity

from kubeio import errors

_T = TypeVar("_T")

ATTEMPTS = 4
_BACKOFF = tenacity.wait_random_exponential(multiplier=0.1, max=2.0)


def is_repeatable(problem: BaseException, *, idempotent: bool) -> bool:
    """Tell whether one more try may help and cannot do harm.

    A server that says 429 or 503 with a delay has not touched the request (429) or says that it
    could not serve it; without a delay a rule refused, and only the worker may come back.
    """
    if isinstance(problem, errors.Untrusted):
        return False
    if isinstance(problem, errors.NotSent):
        return True
    if isinstance(problem, errors.TooManyRequests):
        return problem.retry_after is not None
    if isinstance(problem, errors.ApiError):
        return idempotent and problem.status == 503 and problem.retry_after is not None
    if isinstance(problem, errors.Timeout):
        return False  # the deadline is used up
    return idempotent and isinstance(problem, errors.Unavailable)


async def call(
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
        # The common case, one try, never pays for the machinery below.
        if not is_repeatable(problem, idempotent=idempotent):
            raise
        first: errors.ApiError | errors.Unavailable | None = problem

    def wait(state: tenacity.RetryCallState) -> float:
        failed = state.outcome.exception() if state.outcome else None
        return _delay(failed, state)

    def stop(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= ATTEMPTS or clock() + state.upcoming_sleep >= ends

    async def again() -> _T:
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
    return await retrying(again)


def _delay(problem: BaseException | None, state: tenacity.RetryCallState) -> float:
    told = getattr(problem, "retry_after", None)
    return told if told is not None else _BACKOFF(state)
