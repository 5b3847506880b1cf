"""The drills in small. Each is `python -m tests.drills`, which has the full counts.

Each is also held against a syncer that is broken on purpose, in a way that it must find.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.drills.drills import NAMES, Options
from tests.drills.run import run

SEED = 7
OUTAGE_SECONDS = 60.0
"""Of an API server; ten minutes are for the program."""

TURNS = {"kill": 1, "restart": 2, "proxy": 3, "restore": 2, "away": 1, "clock": 4, "lease": 1}
MUTANTS = {
    "kill": "orphans_are_forgotten",
    "restart": "failed_keys_are_dropped",
    "proxy": "no_uid_in_deletes",
    "restore": "no_brake",
    "away": "failed_keys_are_dropped",
    "clock": "leases_by_the_wall_clock",
    "lease": "no_fence",
}
SHORT = frozenset({"kill", "proxy"})
MANY = 12
"""Turns that a broken syncer has before it must be found."""
BROKEN_SECONDS = 40.0
"""Until what a broken syncer leaves behind counts as left."""


def _marked(name: str) -> object:
    marks = [pytest.mark.timeout(900)]
    return pytest.param(name, marks=marks if name in SHORT else [*marks, pytest.mark.thorough])


def options(count: int, **more: Any) -> Options:
    return Options(count=count, seed=SEED, seconds=OUTAGE_SECONDS, **more)


def test_each_drill_is_here():
    assert set(TURNS) == set(MUTANTS) == set(NAMES)


@pytest.mark.parametrize("name", [_marked(name) for name in TURNS])
async def test_nothing_is_lost_doubled_orphaned_or_wrongly_deleted(name: str, tmp_path: Path):
    """FIG-22 to FIG-26 in small."""
    report = await run(name, options(TURNS[name]), tmp_path)
    print(report)
    assert report.findings == []
    assert report.tried == TURNS[name], report.why_skipped


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTANTS)
async def test_what_is_broken_on_purpose_is_found(name: str, tmp_path: Path):
    broken = options(MANY, mutant=MUTANTS[name], calm_seconds=BROKEN_SECONDS)
    report = await run(name, broken, tmp_path)
    print(report)
    assert report.failed
