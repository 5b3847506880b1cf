"""The largest tenant is disconnected before the kernel ends the process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kubeio.cache.cache_budget import MIB, CacheBudget
from kubeio.cache.store import Store
from syncer.lifecycle import memory_pressure
from syncer.lifecycle.memory_pressure import MemoryPressure
from syncer.safety.cache_limits import build_cache_limits
from tests.support.syncer.sessions import TENANT


class Connection(SimpleNamespace):
    """A connection whose caches have a given size."""

    def __init__(self, size: int) -> None:
        super().__init__(tenant=TENANT, cache_budget=CacheBudget(build_cache_limits(256 * MIB)))
        self.cache_budget.open_account("Pod", Store())
        self.cache_budget.size = size

    @property
    def is_shed(self) -> bool:
        return self.cache_budget.exceeded.is_set()


async def test_the_largest_goes_first_and_then_the_next_when_the_memory_stays():
    """REL-77."""
    large, small = Connection(50 * MIB), Connection(20 * MIB)
    resident = 70 * MIB
    found: dict[str, Any] = {"small": small, "large": large}
    pressure = MemoryPressure(found, limit=100 * MIB, read_resident=lambda: resident)
    pressure.check(0.0)
    assert not large.is_shed
    resident = 85 * MIB
    pressure.check(1.0)
    assert large.is_shed
    assert not small.is_shed
    pressure.check(2.0)
    assert not small.is_shed, "its memory is about to be returned"
    pressure.check(12.0)
    assert small.is_shed
    assert large.cache_budget.overflow is not None
    assert "the syncer uses 89128960 of 104857600 bytes" in large.cache_budget.overflow.reason


async def test_unfinished_watch_events_count_as_cached_objects():
    """REL-77: otherwise an innocent neighbour would go."""
    neighbour, hostile = Connection(20 * MIB), Connection(0)
    for number in range(26):
        account = hostile.cache_budget.open_account(f"Kind{number}", Store())
        account.charge_pending(4 * MIB)
    found: dict[str, Any] = {"neighbour": neighbour, "hostile": hostile}
    MemoryPressure(found, limit=100 * MIB, read_resident=lambda: 85 * MIB).check(0.0)
    assert hostile.is_shed
    assert not neighbour.is_shed
    assert hostile.cache_budget.overflow is not None
    assert hostile.cache_budget.overflow.size == 4 * MIB


async def test_without_a_limit_nothing_runs():
    await MemoryPressure({}, limit=None).run()


def test_memory_is_returned_where_the_library_can():
    memory_pressure.trim_heap()


@pytest.mark.parametrize("missing", [AttributeError, OSError])
def test_another_library_is_no_error(missing, monkeypatch):
    def fail(_: object) -> None:
        raise missing

    monkeypatch.setattr(memory_pressure.ctypes, "CDLL", fail)
    memory_pressure.trim_heap()
