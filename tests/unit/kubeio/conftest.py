"""A test that leaves a task behind has a bug, or found one."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
import uvloop

from tests.support import wires


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Watch every asynchronous test of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents and inspect.iscoroutinefunction(
            getattr(item, "obj", None)
        ):
            item.fixturenames.append("no_task_left_behind")


@pytest.fixture
async def no_task_left_behind():
    """Fail when the test's loop still has tasks at its end."""
    yield
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def pytest_asyncio_loop_factories(config, item):
    """The loop in production is the one in its tests. Those with real servers run on asyncio's."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=wires.NAMES)
def wire_in_use(request, monkeypatch):
    """Every fault on each wire: a caller must not be able to tell them apart."""
    wires.use(request.param, monkeypatch)
