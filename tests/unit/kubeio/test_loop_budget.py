"""Work in one turn of the event loop. The rest follows in later turns."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from kubeio import loop_budget as module
from kubeio.controller.fair_queue import FairQueue, QueueClosed
from kubeio.controller.worker import Done, Worker
from kubeio.loop_budget import LoopBudget


class LoopClock:
    """Stands still unless told otherwise."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """Return a clock that stands still."""
    return LoopClock()


async def test_a_turn_is_over_after_its_time_and_the_next_one_is_fresh(clock):
    turns = LoopBudget(1.0, clock=clock)
    assert not turns.is_spent()
    clock.now = 0.9
    assert not turns.is_spent()
    clock.now = 1.0
    assert turns.is_spent()
    await asyncio.sleep(0)
    assert not turns.is_spent()


async def test_a_turn_in_which_no_one_asked_before_is_fresh(clock):
    turns = LoopBudget(1.0, clock=clock)
    clock.now = 100.0
    assert not turns.is_spent()


async def test_who_begins_something_large_waits_for_a_turn_but_not_for_ever(clock):
    turns = LoopBudget(1.0, clock=clock)
    begun = asyncio.ensure_future(turns.wait_for_budget())
    turns.is_spent()
    clock.now += 10.0
    await asyncio.sleep(0)
    assert not begun.done()
    async with asyncio.timeout(10):
        await begun


async def test_who_is_always_behind_others_begins_after_some_turns_all_the_same(clock):
    turns = LoopBudget(1.0, clock=clock)

    async def greedy():
        while True:
            await turns.wait_for_iteration()
            turns.is_spent()
            clock.now += 10.0

    count = (
        2 * module._WOKEN_PER_ITERATION - 1
    )  # who comes after them is the last of a turn each time
    others = [asyncio.ensure_future(greedy()) for _ in range(count)]
    await asyncio.sleep(0)
    turns.is_spent()
    clock.now += 10.0
    async with asyncio.timeout(10):
        await turns.wait_for_budget()
    for each in others:
        each.cancel()


async def test_time_in_which_others_have_the_core_does_not_count():
    turns = LoopBudget(0.01)
    assert not turns.is_spent()
    time.sleep(0.02)  # noqa: ASYNC251 - as a process is that has no core
    assert not turns.is_spent()


async def test_a_portion_has_its_own_time_in_each_turn(clock):
    turns = LoopBudget(1.0, clock=clock)
    is_over = turns.create_portion(2.0)
    turns.is_spent()
    clock.now = 5.0
    assert turns.is_spent()
    assert not is_over(), "others' time is not its own"
    clock.now = 6.9
    assert not is_over()
    clock.now = 7.0
    assert is_over()
    await asyncio.sleep(0)
    assert not is_over()


async def test_who_waits_for_a_turn_gets_one_that_is_fresh_and_in_order(clock):
    turns = LoopBudget(1.0, clock=clock)
    served = []

    async def wait(number):
        turns.is_spent()
        clock.now += 10.0
        while turns.is_spent():
            await turns.wait_for_iteration()
        served.append(number)
        clock.now += 10.0  # the turn is over for the others

    count = 3 * module._WOKEN_PER_ITERATION
    async with asyncio.timeout(10):
        await asyncio.gather(*(wait(number) for number in range(count)))
    assert sorted(served) == list(range(count))
    assert served[0] == 0


async def test_those_who_gave_up_waiting_keep_no_one_waiting(clock):
    turns = LoopBudget(1.0, clock=clock)
    waiting = [
        asyncio.ensure_future(turns.wait_for_iteration())
        for _ in range(3 * module._WOKEN_PER_ITERATION)
    ]
    last = asyncio.ensure_future(turns.wait_for_iteration())
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()
    async with asyncio.timeout(10):
        await last


async def _starts(queue, clock, count, keys):
    """Return in which turn of the loop each key's run began, when each takes a second."""
    turn, starts, ended = 0, {}, asyncio.Event()

    async def tick():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def reconcile(key):
        starts[key] = turn
        if len(starts) == len(keys):
            ended.set()
        clock.now += 1.0
        await asyncio.sleep(0)
        return Done()

    ticking = asyncio.ensure_future(tick())
    for key in keys:
        queue.add(key)
    working = asyncio.ensure_future(Worker(queue, reconcile, name="test", count=count).run())
    async with asyncio.timeout(10):
        await ended.wait()
    queue.close()
    await working
    ticking.cancel()
    return starts


async def test_runs_that_take_long_begin_in_turns_of_their_own(clock):
    queue = FairQueue(group=lambda key: key, clock=clock, loop_budget=LoopBudget(0.5, clock=clock))
    starts = await _starts(queue, clock, 8, [str(number) for number in range(40)])
    assert len(set(starts.values())) == 40


async def test_runs_that_are_short_begin_together(clock):
    queue = FairQueue(
        group=lambda key: key, clock=clock, loop_budget=LoopBudget(100.0, clock=clock)
    )
    starts = await _starts(queue, clock, 8, [str(number) for number in range(8)])
    assert len(set(starts.values())) == 1


async def test_a_key_left_to_one_that_is_cancelled_goes_to_another(clock):
    queue = FairQueue(group=lambda key: key, clock=clock, loop_budget=LoopBudget(1.0, clock=clock))
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    queue.loop_budget.is_spent()
    clock.now += 10.0
    await asyncio.sleep(0)
    assert not first.done(), "the turn was over"
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    async with asyncio.timeout(10):
        assert await second == "a"


async def test_closing_ends_the_wait_for_a_turn(clock):
    queue = FairQueue(group=lambda key: key, clock=clock, loop_budget=LoopBudget(1.0, clock=clock))
    queue.add("a")
    waiting = asyncio.ensure_future(queue.get())
    queue.loop_budget.is_spent()
    clock.now += 10.0
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.close()
    async with asyncio.timeout(10):
        with pytest.raises(QueueClosed):
            await waiting
