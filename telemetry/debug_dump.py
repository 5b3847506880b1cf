"""On SIGUSR1, log what the process is busy with: queues, sessions, and where each task waits.

Owns the signal and the shape of the record. Knows nothing of what its sources tell. Hazard: the
sources run on the event loop; they look and never wait.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog

Source = Callable[[], Any]

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@contextmanager
def on_signal(sources: Mapping[str, Source]) -> Iterator[None]:
    """While the block runs, answer SIGUSR1 with a log record of every source and all tasks."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _dump, sources)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)


def tasks() -> dict[str, int]:
    """Return where the loop's tasks wait, innermost line first, and how many wait there."""
    return dict(Counter(_where(task) for task in asyncio.all_tasks()).most_common())


def _dump(sources: Mapping[str, Source]) -> None:
    for name, source in sources.items():
        _log.info("debug.dump", source=name, found=source())
    _log.info("debug.dump", source="tasks", found=tasks())


def _where(task: "asyncio.Task[Any]") -> str:
    awaited: Any = task.get_coro()
    lines = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return " < ".join(reversed(lines)) or "nowhere"
