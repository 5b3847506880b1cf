"""The only waiting tool of the tests: check again until the condition holds, and report the last
state.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

from kubeio.errors import KubeError

T = TypeVar("T")


@overload
async def eventually(
    look: Callable[[], Awaitable[T]],
    *,
    until: Callable[[T], object] = bool,
    within: float = 90.0,
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T],
    *,
    until: Callable[[T], object] = bool,
    within: float = 90.0,
) -> T: ...
async def eventually(
    look: Callable[[], T | Awaitable[T]],
    *,
    until: Callable[[T], object] = bool,
    within: float = 90.0,
) -> T:
    """Return what `look` gives as soon as `until` accepts it (default: it is true).

    An AssertionError or an error of an API server counts as not yet. When time is up, the failure
    shows the last value or error.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + within
    pause = 0.005
    while True:
        try:
            found = look()
            value = await found if inspect.isawaitable(found) else found
            if until(value):
                return value
            last = repr(value)
        except (AssertionError, KubeError) as problem:
            last = f"{type(problem).__name__}: {problem}"
        if loop.time() >= ends:
            raise AssertionError(f"still not so after {within} s. Last state: {last}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.2)
