"""The dump says what is going on, and only when asked."""

from __future__ import annotations

import asyncio
import os
import signal

import structlog

from telemetry import debug_dump
from tests.support.eventually import eventually


async def _busy(event):
    await event.wait()


async def test_the_signal_gets_an_answer_and_nothing_ends():
    event = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(_busy(event))
        with (
            structlog.testing.capture_logs() as logs,
            debug_dump.dump_on_signal({"queue": lambda: {"a": 1}}),
        ):
            os.kill(os.getpid(), signal.SIGUSR1)
            await eventually(lambda: len(logs) == 2)
        event.set()
    assert logs[0]["source"] == "queue"
    assert logs[0]["found"] == {"a": 1}
    waiting = {where: count for where, count in logs[1]["found"].items() if "_busy" in where}
    ((where, count),) = waiting.items()
    assert count == 3
    assert where.startswith("Event.wait:")
