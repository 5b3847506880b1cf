"""An event loop without a clock, and everything that the product asks chance or time for.

Owns the order of events: callbacks run in the order in which they were asked for, timers by their
time, and when nothing is left to do the time goes to the next timer at once. Hazard: what has an
order by its address, such as a set of tasks, would differ from run to run. Tasks and futures made
here are ordered by their numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import heapq
import itertools
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FunctionType, ModuleType
from typing import Any

from kubeio.api import leader_election

EPOCH = 1_790_000_000.0
"""Seconds since 1970 at which every run begins."""
_OURS = ("kubeio", "syncer", "tenancy", "telemetry")
running: ContextVar[object] = ContextVar("running", default=None)
"""Whose process something is done in. None: another owner's."""
_COSTS = (0.00001, 0.00005, 0.0002, 0.001)
_numbers = itertools.count()


class _Task(asyncio.Task):  # type: ignore[type-arg]
    """A task that sorts by its number where others sort by their address."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = next(_numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future):  # type: ignore[type-arg]
    """The same for futures."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = next(_numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class StuckError(Exception):
    """Nothing will ever happen any longer."""


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop whose time goes on only when there is nothing left to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.turns = 0
        self.problems: list[str] = []
        """What no one caught."""
        self._frozen: dict[object, list[asyncio.Handle]] = {}
        self.set_task_factory(lambda loop, coro, **more: _Task(coro, loop=loop, **more))
        self.set_exception_handler(self._note)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future."""
        return _Future(loop=self)

    def freeze(self, process: object) -> None:
        """Let a process do nothing from now on, as if it were stopped by a signal."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: object) -> None:
        """Let it go on, with all that it missed."""
        self._ready.extend(self._frozen.pop(process, ()))

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not self._ready and not self._stopping:
            if not scheduled:
                raise StuckError("every task waits for something that nobody will do")
            self._now = max(self._now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self._ready.append(handle)
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if handle._cancelled:
                continue
            missed = self._frozen and self._frozen.get(handle._context.get(running))
            if isinstance(missed, list):
                missed.append(handle)
                continue
            self.turns += 1
            handle._run()

    def _process_events(self, event_list: Any) -> None:
        raise NotImplementedError

    def _write_to_self(self) -> None:
        """Have no one to wake: there is one thread."""


@contextlib.contextmanager
def seeded(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Give the product this loop's time and the chance of a seed, for the length of a block."""
    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        random.seed(seed)
        own = random.Random(seed)  # noqa: S311 - the same at each run
        _set(
            stack, secrets, "token_hex", lambda size=16: f"{own.getrandbits(8 * size):0{2 * size}x}"
        )
        clocks: dict[Any, Callable[[], float]] = {
            time.monotonic: loop.time,
            leader_election.monotonic_boottime: loop.time,
            time.thread_time: _CpuClock(random.Random(seed + 2)),  # noqa: S311 - the same at each run
        }
        for module in [m for name, m in sys.modules.items() if name.partition(".")[0] in _OURS]:
            _defaults(stack, module, clocks)
            if getattr(module, "datetime", None) is dt.datetime:
                _set(stack, module, "datetime", _datetime(loop))
        _set(stack, time, "monotonic", loop.time)
        _set(stack, time, "time", lambda: EPOCH + loop.time())
        yield


class _CpuClock:
    """A clock of the processor, for the one that asks how much was done: each look costs something.

    The real one has an order of tasks of its own at each run, and on a fast machine only one.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._spent = 0.0

    def __call__(self) -> float:
        self._spent += self._chance.choice(_COSTS)
        return self._spent


def _set(stack: contextlib.ExitStack, holder: Any, name: str, value: Any) -> None:
    stack.callback(setattr, holder, name, getattr(holder, name))
    setattr(holder, name, value)


def _defaults(stack: contextlib.ExitStack, module: ModuleType, clocks: dict[Any, Any]) -> None:
    """Put other clocks in place of those that parameters have as defaults."""
    for function in _with_defaults(module):
        for key, value in (function.__kwdefaults__ or {}).items():
            if _is_clock(value, clocks):
                stack.callback(function.__kwdefaults__.__setitem__, key, value)
                function.__kwdefaults__[key] = clocks[value]
        positional = function.__defaults__ or ()
        if any(_is_clock(value, clocks) for value in positional):
            stack.callback(setattr, function, "__defaults__", positional)
            function.__defaults__ = tuple(
                clocks[value] if _is_clock(value, clocks) else value for value in positional
            )


def _is_clock(value: Any, clocks: dict[Any, Any]) -> bool:
    return callable(value) and any(value is clock for clock in clocks)


@functools.cache
def _with_defaults(module: ModuleType) -> tuple[FunctionType, ...]:
    """Return the functions of a module that have some. Found once, as it takes a while."""
    return tuple(each for each in _functions(module) if each.__defaults__ or each.__kwdefaults__)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for found in list(vars(module).values()):
        if isinstance(found, FunctionType):
            yield found
        elif isinstance(found, type) and found.__module__ == module.__name__:
            yield from (each for each in vars(found).values() if isinstance(each, FunctionType))


def _datetime(loop: VirtualLoop) -> type[dt.datetime]:
    class Virtual(dt.datetime):
        """The class with another present."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            """Return the virtual present."""
            return dt.datetime.fromtimestamp(EPOCH + loop.time(), tz)

    return Virtual
