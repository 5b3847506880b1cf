"""Threads for work on large documents, so that the event loop with all streams goes on.

Hazard: only large documents may use a thread, because a thread costs more than the work on a small
one. A JSON parser keeps the interpreter lock within one call, so a thread bounds the work around
that call only.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

THREAD_THRESHOLD_BYTES = 128 * 1024

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


async def run_in_thread_if_large(
    size: int,
    work: Callable[_Parameters, _Result],
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Result:
    """Run work on a document of `size` bytes, in a thread if it is large."""
    if size < THREAD_THRESHOLD_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
