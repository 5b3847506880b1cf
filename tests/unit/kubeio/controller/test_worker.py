"""The next step of a key after each result of a reconcile."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import structlog

from kubeio import errors
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.controller.worker import (
    IMMEDIATE_CONFLICT_RETRIES,
    MAX_RETRY_AFTER_SECONDS,
    Done,
    NotReadyYet,
    RequeueAfter,
    Worker,
)
from telemetry import logs as product_logs


class WorkerClock:
    now = 0.0

    def __call__(self):
        return self.now


def _worker(reconcile, **options):
    clock = WorkerClock()
    queue = FairQueue(
        QueueOptions(base_delay=1.0, max_delay=8.0),
        group=lambda _: "g",
        clock=clock,
        chance=lambda: 1.0,
    )
    return Worker(queue, reconcile, name="test", **options), queue, clock


def _raising(problem):
    async def reconcile(key):
        raise problem

    return reconcile


async def _once(worker, queue, key="k"):
    """One turn of the loop, without its coroutines."""
    queue.add(key)
    assert queue.take() == key
    await worker.process_key(key)
    queue.done(key)
    return queue.snapshot()["delayed"]


async def test_done_is_done_and_forgets_failures():
    async def reconcile(key):
        return Done()

    worker, queue, _ = _worker(reconcile)
    queue.add_rate_limited("k")
    assert await _once(worker, queue) == {}
    assert queue.count_requeues("k") == 0


async def test_again_comes_back_then():
    async def reconcile(key):
        return RequeueAfter(after=30.0)

    worker, queue, _ = _worker(reconcile)
    assert await _once(worker, queue) == {"k": 30.0}
    assert queue.count_requeues("k") == 0


async def test_waiting_is_no_error():
    worker, queue, _ = _worker(_raising(NotReadyYet("the namespace does not exist yet", after=3.0)))
    with structlog.testing.capture_logs() as logs:
        assert await _once(worker, queue) == {"k": 3.0}
    assert [entry["log_level"] for entry in logs] == ["debug"]


async def test_waiting_without_a_time_backs_off():
    worker, queue, clock = _worker(_raising(NotReadyYet("something")))
    found = []
    for _ in range(5):
        found.append((await _once(worker, queue))["k"])
        clock.now += found[-1]
    assert found == [1.0, 2.0, 4.0, 8.0, 8.0]


async def test_waking_a_waiting_key_keeps_its_wait():
    """Twins that go away one after the other wake what waits for the last of them."""
    worker, queue, clock = _worker(_raising(NotReadyYet("something")))
    for _ in range(20):
        assert await _once(worker, queue) == {"k": 1.0}
        clock.now += 0.9
    clock.now += 0.1
    assert await _once(worker, queue) == {"k": 2.0}


async def test_waking_a_failing_key_lengthens_its_wait():
    worker, queue, _ = _worker(_raising(ValueError("nonsense")))
    found = [(await _once(worker, queue))["k"] for _ in range(4)]
    assert found == [1.0, 2.0, 4.0, 8.0]


async def test_conflicts_are_looked_at_again_at_once_but_not_for_ever():
    """REL-35."""
    worker, queue, _ = _worker(_raising(errors.Conflict("changed")))
    for _ in range(IMMEDIATE_CONFLICT_RETRIES):
        assert await _once(worker, queue) == {}
        assert len(queue) == 1
        assert queue.take() == "k"
        queue.done("k")
    assert await _once(worker, queue) == {"k": 1.0}


async def test_a_success_in_between_ends_the_row_of_conflicts():
    outcomes = [errors.Conflict("x")] * 4 + [None] + [errors.Conflict("x")] * 4

    async def reconcile(key):
        problem = outcomes.pop(0)
        if problem is not None:
            raise problem
        return Done()

    worker, queue, _ = _worker(reconcile)
    for _ in range(9):
        assert await _once(worker, queue) == {}


@pytest.mark.parametrize("told", [7.0, 86_400.0])
async def test_a_woken_key_waits_for_as_long_as_its_server_reported(monkeypatch, told):
    """REL-33. A server does not have it wait for ever, either: a tenant's may say what it likes."""
    now, asked = WorkerClock(), []

    async def reconcile(key):
        asked.append(now())
        raise errors.ServerError("not now", status=503, retry_after=told)

    worker, queue, clock = _worker(reconcile)
    monkeypatch.setattr("kubeio.controller.worker.time.monotonic", now)
    waits = min(told, MAX_RETRY_AFTER_SECONDS)
    assert await _once(worker, queue) == {"k": waits}
    now.now = clock.now = 2.0
    assert await _once(worker, queue) == {"k": waits - 2.0}
    assert asked == [0.0]
    assert await _once(worker, queue, "another") == {"k": waits - 2.0, "another": waits}
    now.now = clock.now = waits
    await _once(worker, queue)
    assert asked == [0.0, 2.0, waits]


async def test_the_servers_delay_is_kept():
    """REL-33."""
    problem = errors.TooManyRequests("slow down", status=429, retry_after=7.0)
    worker, queue, _ = _worker(_raising(problem))
    assert await _once(worker, queue) == {"k": 7.0}


@pytest.mark.parametrize(
    "problem",
    [errors.Unavailable("gone"), errors.Forbidden("no"), errors.TooManyRequests("rule")],
)
async def test_errors_of_the_server_back_off_without_a_traceback(problem):
    worker, queue, _ = _worker(_raising(problem))
    with structlog.testing.capture_logs() as logs:
        assert await _once(worker, queue) == {"k": 1.0}
    (entry,) = logs
    assert (entry["event"], entry["log_level"]) == ("reconcile.failed", "warning")
    assert entry["problem"] == str(problem)
    assert "exc_info" not in entry


async def test_a_server_that_has_failed_by_itself_is_asked_half_as_often():
    """REL-30: a store that is full."""
    problem = errors.ServerError("database space exceeded", status=500)
    worker, queue, _ = _worker(_raising(problem))
    with structlog.testing.capture_logs():
        found = [(await _once(worker, queue))["k"] for _ in range(5)]
    assert found == [2.0, 4.0, 8.0, 8.0, 8.0]


async def test_terminal_is_reported_once_and_left():
    worker, queue, _ = _worker(_raising(errors.TerminalError("fix the spec")))
    with structlog.testing.capture_logs() as logs:
        assert await _once(worker, queue) == {}
    assert [entry["event"] for entry in logs] == ["reconcile.not_retried"]
    assert len(queue) == 0


async def test_a_bug_is_logged_with_its_trace_and_backs_off_without_end():
    worker, queue, _ = _worker(_raising(ZeroDivisionError("poison")))
    with structlog.testing.capture_logs() as logs:
        found = [(await _once(worker, queue))["k"] for _ in range(6)]
    assert found == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert logs[0]["event"] == "reconcile.crashed"
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)
    assert [entry["attempt"] for entry in logs] == [1, 2, 3, 4, 5, 6]


async def test_a_reconcile_that_never_ends_is_ended():
    async def reconcile(key):
        await asyncio.Event().wait()

    worker, queue, _ = _worker(reconcile, deadline=0.01)
    with structlog.testing.capture_logs() as logs:
        assert await _once(worker, queue) == {"k": 1.0}
    assert logs[0]["event"] == "reconcile.deadline_exceeded"


async def test_fields_name_the_key_in_what_the_reconcile_logs():
    seen = []

    async def reconcile(key):
        subject = product_logs.LOG_SUBJECT.get()
        seen.append(subject())
        return Done()

    worker, queue, _ = _worker(reconcile, fields=lambda key: {"name": key})
    await _once(worker, queue)
    assert seen == [{"name": "k"}]
    assert product_logs.LOG_SUBJECT.get() is None


async def test_a_poisonous_key_stops_no_tenant():
    """REL-14."""
    worked = []
    queue = FairQueue(QueueOptions(base_delay=0.001, max_delay=0.01), group=lambda key: key)

    async def reconcile(key):
        worked.append(key)
        if key == "poison":
            raise RuntimeError(key)
        if worked.count("poison") >= 3 and len(set(worked)) == 11:
            queue.close()
        queue.add(key)
        return Done()

    queue.add("poison")
    for number in range(10):
        queue.add(str(number))
    with structlog.testing.capture_logs():  # drawing the tracebacks would take most of the time
        async with asyncio.timeout(10):
            await Worker(queue, reconcile, name="test", count=3).run()
    assert worked.count("poison") >= 3


async def test_closing_lets_what_is_in_hand_finish():
    """REL-13."""
    queue = FairQueue(group=lambda key: key)
    begun, finish, finished = asyncio.Event(), asyncio.Event(), []

    async def reconcile(key):
        begun.set()
        await finish.wait()
        finished.append(key)
        return Done()

    queue.add("a")
    running = asyncio.ensure_future(Worker(queue, reconcile, name="test", count=2).run())
    await begun.wait()
    queue.close()
    queue.add("b")
    finish.set()
    await asyncio.wait_for(running, 5)
    assert finished == ["a"]


@pytest.mark.parametrize("problem", [errors.Unavailable("away"), None])
async def test_a_reconcile_that_makes_something_else_of_its_end_keeps_no_worker(problem):
    """Seed 30007590: a process that had lost its Lease never ended, and nothing was synced."""
    queue = FairQueue(group=lambda key: key)
    begun = asyncio.Event()

    async def reconcile(key):
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if problem is not None:
            raise problem
        return Done()

    queue.add("a")
    running = asyncio.ensure_future(Worker(queue, reconcile, name="test", count=2).run())
    await begun.wait()
    running.cancel()
    done, _ = await asyncio.wait((running,), timeout=5)
    assert done
    assert running.cancelled()


async def test_cancelling_ends_the_workers_and_gives_the_key_back():
    queue = FairQueue(group=lambda key: key)
    begun = asyncio.Event()

    async def reconcile(key):
        begun.set()
        await asyncio.Event().wait()

    queue.add("a")
    running = asyncio.ensure_future(Worker(queue, reconcile, name="test", count=2).run())
    await begun.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert queue.snapshot()["processing"] == {}
