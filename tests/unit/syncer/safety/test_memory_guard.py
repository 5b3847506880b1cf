"""Which tenant is disconnected when the memory runs out."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncer.safety import memory_guard
from syncer.safety.memory_guard import MIN_SHED_BYTES, SETTLE_SECONDS, MemoryUse, choose_tenant

LARGE = {"a": MIN_SHED_BYTES, "b": 3 * MIN_SHED_BYTES, "c": 2 * MIN_SHED_BYTES}
LONG_AGO = SETTLE_SECONDS + 1


@pytest.mark.parametrize(
    ("use", "tenants", "since", "chosen"),
    [
        (MemoryUse(80, 100), LARGE, LONG_AGO, None),
        (MemoryUse(81, 100), LARGE, LONG_AGO, "b"),
        (MemoryUse(81, None), LARGE, LONG_AGO, None),
        (MemoryUse(81, 100), {}, LONG_AGO, None),
        (MemoryUse(81, 100), LARGE, 1.0, None),
        (MemoryUse(91, 100), LARGE, 1.0, "b"),
        (MemoryUse(99, 100), {"a": MIN_SHED_BYTES - 1}, LONG_AGO, None),
        (MemoryUse(99, 100), {"b": 9 * MIN_SHED_BYTES, "a": 9 * MIN_SHED_BYTES}, LONG_AGO, "a"),
    ],
)
def test_the_largest_tenant_is_chosen_over_the_limit_only(use, tenants, since, chosen):
    assert choose_tenant(use, tenants, since_last_shed=since) == chosen


@pytest.mark.parametrize(("text", "limit"), [("1048576\n", 1048576), ("max\n", None)])
def test_the_limit_of_the_cgroup_is_read(tmp_path: Path, text, limit):
    path = tmp_path / "memory.max"
    path.write_text(text)
    assert memory_guard.read_cgroup_limit(path) == limit
    assert memory_guard.read_cgroup_limit(tmp_path / "missing") is None


def test_the_resident_memory_is_read(tmp_path: Path):
    assert memory_guard.read_resident_bytes() > 1024 * 1024
    assert memory_guard.read_resident_bytes(tmp_path / "missing") == 0
