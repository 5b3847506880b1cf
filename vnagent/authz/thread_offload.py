"""Work on large documents beside the loop, on which everybody's streams run.

Hazard: a thread costs more than a small document takes, and a JSON parser does not let go of the
interpreter within one call, so this bounds the work around it and not that call.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LARGE_BYTES = 128 * 1024

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


async def beside(
    size: int,
    work: Callable[_Parameters, _Result],
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Result:
    """Do work on a document of `size` bytes, in a thread when it is large."""
    if size < LARGE_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
