"""Supervised loops: turns after changes and failures, connections, and the end of members."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kubeio import errors
from syncer.lifecycle import supervisor
from syncer.lifecycle.supervisor import AT_ONCE, UNTIL_CHANGED, SupervisedLoop, Supervisor
from tests.support.syncer.idle import idle


def create_loop() -> SupervisedLoop:
    return SupervisedLoop("tenant t", max_retry_seconds=10.0)


@contextlib.asynccontextmanager
async def supervising(step: Any) -> AsyncIterator[Supervisor]:
    """Run a supervisor for the length of a test."""
    made = Supervisor("tenant", step=step, max_retry_seconds=10.0)
    task = asyncio.ensure_future(made.run(lambda _: None))
    await idle()
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("results", "turns"),
    [
        pytest.param([AT_ONCE, AT_ONCE, None], 3, id="at once"),
        pytest.param([0.01, None], 2, id="after a delay"),
        pytest.param([UNTIL_CHANGED, None], 1, id="not before a change"),
    ],
)
async def test_a_turn_reports_when_the_next_one_begins(results: list[float | None], turns: int):
    left, loop = list(results), create_loop()

    async def step() -> float | None:
        return left.pop(0)

    task = asyncio.ensure_future(loop.run(step))
    await asyncio.sleep(0.1)
    assert len(results) - len(left) == turns
    assert task.done() is (not left)
    loop.wake()
    await idle()
    assert task.done()


async def test_a_change_during_a_turn_is_not_lost():
    turns, loop = [], create_loop()

    async def step() -> float | None:
        turns.append(1)
        if len(turns) == 1:
            loop.wake()
        return UNTIL_CHANGED if len(turns) < 2 else None

    await asyncio.wait_for(loop.run(step), 1)
    assert len(turns) == 2


async def test_a_malformed_object_delays_a_loop_and_does_not_end_it():
    turns, loop = [], create_loop()

    async def step() -> float | None:
        turns.append(1)
        if len(turns) == 1:
            raise TypeError("malformed")
        return None

    task = asyncio.ensure_future(loop.run(step))
    await asyncio.sleep(0.05)
    assert len(turns) == 1
    loop.wake()
    await idle()
    assert task.done()


async def test_a_pause_of_its_own_replaces_the_wait_for_a_change():
    pauses: list[float] = []
    results: list[float | None] = [3.0, UNTIL_CHANGED, None]

    async def step() -> float | None:
        return results.pop(0)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    await asyncio.wait_for(create_loop().run(step, pause=pause), 1)
    assert pauses == [3.0, UNTIL_CHANGED]


async def _fail(problem: BaseException) -> None:
    raise problem


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (errors.Unavailable("no route"), "no route"),
        (ExceptionGroup("", [ExceptionGroup("", [errors.Unavailable("inside")])]), "inside"),
        (ValueError(), "ValueError"),
    ],
)
async def test_the_reason_of_a_failed_connection_is_returned(problem: BaseException, reason: str):
    found = await create_loop().run_connection(_fail(problem), until=asyncio.Event().wait())
    assert found == reason


async def test_a_connection_ends_with_its_plan_after_it_was_drained():
    ended: list[str] = []

    async def connection(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def drain() -> None:
        await asyncio.sleep(0)
        ended.append("drained")

    found = await create_loop().run_connection(
        connection("tenant"),
        until=asyncio.sleep(0.01),
        beside=connection("targets"),
        drain=drain,
    )
    assert found == ""
    assert ended[0] == "drained"
    assert sorted(ended[1:]) == ["targets", "tenant"]


async def test_a_failure_beside_a_connection_ends_it_with_its_reason():
    async def fail() -> None:
        await asyncio.sleep(0)
        raise TypeError("a count is no number")

    async with asyncio.timeout(5):
        found = await create_loop().run_connection(
            asyncio.Event().wait(), until=asyncio.Event().wait(), beside=fail()
        )
    assert found == "a count is no number"


async def test_a_task_beside_a_connection_may_end_first():
    found = await create_loop().run_connection(
        asyncio.Event().wait(), until=asyncio.sleep(0.02), beside=asyncio.sleep(0)
    )
    assert found == ""


async def test_a_malformed_object_in_a_pause_is_retried(monkeypatch: pytest.MonkeyPatch):
    loop, turns = create_loop(), []
    monkeypatch.setattr(loop, "get_retry_seconds", lambda: 0.01)

    async def step() -> float | None:
        turns.append(1)
        return None if len(turns) > 1 else 5.0

    async def pause(_: float) -> None:
        raise TypeError("a count is no number")

    async with asyncio.timeout(5):
        await loop.run(step, pause=pause)
    assert len(turns) == 2


@pytest.mark.parametrize(("stable", "is_reset"), [(0.0, True), (60.0, False)])
async def test_only_a_stable_connection_resets_the_retry_delay(
    monkeypatch: pytest.MonkeyPatch, stable: float, is_reset: bool
):
    monkeypatch.setattr(supervisor, "STABLE_SECONDS", stable)
    loop = create_loop()
    for _ in range(8):
        loop.get_retry_seconds()
    await loop.run_connection(asyncio.sleep(0), until=asyncio.Event().wait())
    assert (loop.get_retry_seconds() <= 1.0) is is_reset


async def test_each_member_has_one_loop_that_ends_with_its_object_and_may_start_again():
    running, deleted = [], set()

    async def step(name: str, loop: SupervisedLoop) -> float | None:
        running.append(name)
        return None if name in deleted else UNTIL_CHANGED

    async with supervising(step) as made:
        for name in ("a", "b", "a"):
            made.wake(name)
        await idle()
        assert sorted(running) == ["a", "b"]
        made.wake("a")
        await idle()
        deleted.add("a")
        made.wake("a")
        await idle()
        assert sorted(running) == ["a", "a", "a", "b"]
        assert set(made._loops) == {"b"}
        deleted.clear()
        made.wake("a")
        await idle()
        assert set(made._loops) == {"a", "b"}


async def test_a_malformed_object_of_one_member_disturbs_no_other():
    async def step(name: str, loop: SupervisedLoop) -> float | None:
        if name == "bad":
            raise KeyError("spec")
        return UNTIL_CHANGED

    async with supervising(step) as made:
        made.wake("bad")
        made.wake("good")
        await idle()
        assert set(made._loops) == {"bad", "good"}


def test_nothing_is_enqueued_before_the_supervisor_runs():
    made = Supervisor("tenant", step=_unused, max_retry_seconds=1.0)
    with pytest.raises(AssertionError):
        made.wake("a")


_unused: Callable[..., Any] = asyncio.sleep
