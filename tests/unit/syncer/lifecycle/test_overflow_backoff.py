"""Pauses of tenants that are too large: longer each time, and short again after a long while."""

from __future__ import annotations

from kubeio.cache.cache_budget import CacheBudget
from kubeio.cache.store import Store
from syncer.lifecycle.overflow_backoff import OverflowBackoff
from syncer.safety.cache_limits import TenantLimits

LIMITS = TenantLimits(away_base_seconds=100.0, away_max_seconds=400.0)


def exceeded() -> CacheBudget:
    budget = CacheBudget(LIMITS.cache)
    budget.open_account("Pod", Store())
    budget.exceed("too much")
    return budget


async def test_pauses_grow_and_start_again_after_a_long_time():
    away = OverflowBackoff(LIMITS)
    pauses = []
    for now in (0.0, 200.0, 500.0, 900.0, 2000.0):
        away.record_end("u", exceeded())
        pause = away.begin_pause("u", now)
        assert pause is not None
        pauses.append(pause.seconds)
        assert "The next attempt is in" in pause.describe()
    for seconds, longest in zip(pauses, (100, 200, 400, 400, 100), strict=True):
        assert longest / 2 <= seconds <= longest


async def test_only_the_end_of_a_too_large_connection_begins_a_pause():
    away = OverflowBackoff(LIMITS)
    away.record_end("u", exceeded())
    assert away.begin_pause("u", 0.0) is not None
    assert away.tenants == {"u"}
    away.record_end("u", CacheBudget(LIMITS.cache))
    assert away.begin_pause("u", 1.0) is None
    assert away.tenants == set()
    away.record_end("u", exceeded())
    away.forget("u")
    assert away.begin_pause("u", 2.0) is None
