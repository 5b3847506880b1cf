"""Keys of one session: queued, waiting, and in work."""

from __future__ import annotations

import asyncio

from kubeio.controller.fair_queue import FairQueue, QueueOptions
from syncer.model.keys import EVENT, HOME, Key, build_group
from syncer.tenants.session_work import SessionWork

POD, SECRET = (Key("uid", HOME, kind, "web", "a") for kind in ("Pod", "Secret"))


def work() -> tuple[SessionWork, FairQueue[Key]]:
    """Return the work of a session that has not started, and its queue."""
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    return SessionWork(queue, build_group(POD)), queue


def taken(queue: FairQueue[Key]) -> set[Key]:
    return set(iter(queue.take, None))


def test_no_key_is_queued_before_the_start_and_after_the_stop():
    found, queue = work()
    found.enqueue(POD)
    assert not taken(queue)
    found.start([SECRET])
    assert taken(queue) == {SECRET}
    found.enqueue(POD)
    assert taken(queue) == {POD}
    found.stop()
    found.enqueue(POD)
    assert not taken(queue)


def test_waiting_keys_are_queued_once_when_their_dependency_changes():
    found, queue = work()
    event = POD._replace(kind=EVENT)
    for key in (POD, event):
        found.add_waiter(SECRET, key)
    found.wake_waiters(POD)
    assert not taken(queue)
    found.wake_waiters(SECRET)
    assert taken(queue) == {POD, event}
    found.wake_waiters(SECRET)
    assert not taken(queue)


async def test_a_drain_drops_queued_keys_and_waits_for_those_in_work():
    found, queue = work()
    found.start([POD])
    found.keys_in_work.start()
    ending = asyncio.ensure_future(found.drain())
    await asyncio.sleep(0)
    assert [ending.done(), found.is_ready, taken(queue)] == [False, False, set()]
    found.keys_in_work.finish()
    await asyncio.wait_for(ending, 1)
