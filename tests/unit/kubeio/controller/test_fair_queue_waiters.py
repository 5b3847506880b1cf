"""Waiters for a key: each is woken when it gets a key, and when the queue ends."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kubeio.controller.fair_queue import FairQueue, QueueClosed, QueueOptions


async def test_waiters_are_served_as_keys_come():
    queue = FairQueue(group=lambda key: key[0])
    got = []

    async def serve():
        with contextlib.suppress(QueueClosed):
            while True:
                key = await queue.get()
                got.append(key)
                queue.done(key)
                if len(got) == 50:
                    queue.close()

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(serve())
        await asyncio.sleep(0)
        for number in range(50):
            queue.add(f"{number % 7}{number}")
    assert len(set(got)) == 50


async def test_a_delayed_key_enqueues_the_waiting_worker():
    queue = FairQueue(group=lambda key: key)
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add_after("late", 0.05)
    queue.add_after("soon", 0.01)
    assert await asyncio.wait_for(waiting, 5) == "soon"
    assert await asyncio.wait_for(queue.get(), 5) == "late"


async def test_a_cancelled_waiter_passes_its_key_on():
    queue = FairQueue(group=lambda key: key)
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()  # after it was chosen to wake up, before it ran
    assert await asyncio.wait_for(second, 5) == "a"
    assert first.cancelled()


async def test_closing_ends_every_wait():
    queue = FairQueue(group=lambda key: key)
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    assert all(
        isinstance(found, QueueClosed)
        for found in await asyncio.gather(*waiting, return_exceptions=True)
    )
    queue.add("a")
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_freed_place_wakes_a_waiter():
    queue = FairQueue(QueueOptions(max_in_flight=1), group=lambda _: "one")
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "a"
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    assert await asyncio.wait_for(waiting, 5) == "b"
