"""The drills in small. Each is `python -m tests.chaos.processes`, which has the full counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.processes.drills import NAMES, DrillOptions
from tests.chaos.processes.outage import SLOWER
from tests.chaos.processes.run import run
from tests.chaos.processes.small import MUTANTS, OUTAGE_SECONDS, SEED, TURNS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


async def holds(name: str, folder: Path) -> None:
    """FIG-22 to FIG-26 in small."""
    count = TURNS[name]
    report = await run(name, DrillOptions(count=count, seed=SEED, seconds=OUTAGE_SECONDS), folder)
    print(report)
    if report.why_skipped:
        pytest.skip(report.why_skipped)
    # How fast others were is for the program, on a machine that does nothing else.
    assert [each for each in report.findings if each.rule != SLOWER] == []
    assert report.tried == count


def test_each_drill_is_here():
    assert set(TURNS) == set(MUTANTS) == set(NAMES)


async def test_kills_lose_double_and_wrongly_delete_nothing(tmp_path: Path):
    """REL-01."""
    await holds("kill", tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in TURNS if name != "kill"])
async def test_nothing_is_lost_doubled_orphaned_or_wrongly_deleted(name: str, tmp_path: Path):
    """REL-15, REL-17, REL-28, REL-31, REL-33, REL-34, REL-50, REL-51."""
    await holds(name, tmp_path)
