"""State dump to the log on SIGUSR1: queues, sessions, and the position of each waiting task.

Owns the signal and the shape of the record. Knows nothing of the content of its sources.

Hazard: sources must only read and never wait. They run on the event loop and would block it.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog

DumpSource = Callable[[], Any]

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@contextmanager
def dump_on_signal(sources: Mapping[str, DumpSource]) -> Iterator[None]:
    """Log every source and all tasks on each SIGUSR1 while the block runs."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _log_dump, sources)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)


def count_waiting_tasks() -> dict[str, int]:
    """Return the number of the loop's tasks by waiting position, innermost line first."""
    return dict(Counter(_describe_task(task) for task in asyncio.all_tasks()).most_common())


def _log_dump(sources: Mapping[str, DumpSource]) -> None:
    for name, source in sources.items():
        _log.info("debug.dump", source=name, found=source())
    _log.info("debug.dump", source="tasks", found=count_waiting_tasks())


def _describe_task(task: "asyncio.Task[Any]") -> str:
    awaited: Any = task.get_coro()
    lines = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return " < ".join(reversed(lines)) or "nowhere"
