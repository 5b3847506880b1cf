"""Creation and deletion of many objects, at once or at a rate, with the time of each.

Owns the workers. Knows paths and bodies, not their meaning. Hazard: times must be read from the
monotonic clock here, not from the event loop. The loop's clock does not advance while a callback
runs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from bench.lifecycle.http_client import LoadTransport

CREATORS = 20
GRACEFUL = b'{"apiVersion":"v1","kind":"DeleteOptions"}'


@dataclass(frozen=True, slots=True)
class LoadItem:
    """One object of the load."""

    name: str
    wire: LoadTransport
    collection: str
    """Path of the collection that it is created in."""
    body: bytes = b""

    @property
    def path(self) -> str:
        """Return the path of the object."""
        return f"{self.collection}/{self.name}"


@dataclass(slots=True)
class RequestTimes:
    """Times of each request and its answer, by the object's name."""

    sent: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)

    @property
    def begun(self) -> float:
        """Return the time of the first request."""
        return min(self.sent.values())


SendFunction = Callable[[LoadItem], Awaitable[object]]


async def post(item: LoadItem) -> bytes:
    """Create an object."""
    return await item.wire.do("POST", item.collection, item.body)


async def delete(item: LoadItem) -> bytes:
    """Delete an object as a user does, with its own grace period."""
    return await item.wire.do("DELETE", item.path, GRACEFUL)


async def burst(
    items: Iterable[LoadItem], send: SendFunction, *, workers: int = CREATORS
) -> RequestTimes:
    """Process all items, as fast as so many workers can."""
    times, waiting = RequestTimes(), iter(items)

    async def work() -> None:
        for item in waiting:
            await _timed(item, send, times)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return times


async def paced(
    items: Iterable[LoadItem],
    send: SendFunction,
    *,
    per_second: float,
    times: RequestTimes | None = None,
) -> RequestTimes:
    """Process all items at a rate, without a wait for the previous answer."""
    found = times if times is not None else RequestTimes()
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, item in enumerate(items):
            await asyncio.sleep(max(begun + number / per_second - time.monotonic(), 0))
            group.create_task(_timed(item, send, found))
    return found


async def _timed(item: LoadItem, send: SendFunction, times: RequestTimes) -> None:
    times.sent[item.name] = time.monotonic()
    await send(item)
    times.answered[item.name] = time.monotonic()
