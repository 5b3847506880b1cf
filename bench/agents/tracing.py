"""Starts of programs and ends of processes on the whole machine, from the kernel's tracing.

Owns one instance of the kernel's tracing, which needs root. Must not know the measurement. The
times are those of `time.perf_counter`.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

INSTANCES = Path("/sys/kernel/tracing/instances")
BUFFER_KIB = 8 * 1024
"""Buffer size per core. A command has about 20 lines."""
_LINE = re.compile(
    r" (?P<at>\d+\.\d+): sched_process_"
    r"(?:exec: filename=(?P<path>\S+) |exit: comm=(?P<comm>.+) pid=\d+ prio=)"
)
_COUNTS = re.compile(r"# entries-in-buffer/entries-written: (\d+)/(\d+) ")


@dataclass(frozen=True, slots=True)
class ProcessEvent:
    """The start of a program in a process, or the end of a thread."""

    at: float
    """Seconds of the monotonic clock."""
    name: str
    """Name of the program without folders, or of the thread."""
    has_ended: bool


class NoTracingError(Exception):
    """The kernel does not allow tracing. The message has the reason."""


@contextlib.contextmanager
def traced() -> Iterator[list[ProcessEvent]]:
    """Yield a list that has the events of the block at its end. Raises NoTracingError."""
    instance = INSTANCES / f"bench-{os.getpid()}"
    found: list[ProcessEvent] = []
    with _told():
        _forget_the_killed()
        instance.mkdir()
    try:
        with _told():
            _set_up(instance)
        yield found
        with _told(), (instance / "trace").open() as lines:
            (instance / "tracing_on").write_text("0")
            found += sorted(read(lines), key=attrgetter("at"))
    finally:
        instance.rmdir()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Raise NoTracingError if the kernel refuses. Other errors of the traced block pass."""
    try:
        yield
    except OSError as error:
        raise NoTracingError(f"{error.filename}: {error.strerror}. Run it as root") from error


def _forget_the_killed() -> None:
    for old in INSTANCES.glob("bench-*"):
        if not Path("/proc", old.name.partition("-")[2]).exists():
            old.rmdir()


def _set_up(instance: Path) -> None:
    (instance / "trace_clock").write_text("mono")
    (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
    for name in ("exec", "exit"):
        (instance / f"events/sched/sched_process_{name}/enable").write_text("1")


def read(lines: Iterable[str]) -> Iterator[ProcessEvent]:
    """Yield the events of a trace, as the kernel writes them.

    Raises NoTracingError when it has dropped some.
    """
    for line in lines:
        counts = _COUNTS.match(line)
        if counts is not None and counts[1] != counts[2]:
            raise NoTracingError(f"{counts[1]} of {counts[2]} events are left: trace for less long")
        if (told := _LINE.search(line)) is not None:
            name = told["comm"] or Path(told["path"]).name
            yield ProcessEvent(float(told["at"]), name, has_ended=told["comm"] is not None)
