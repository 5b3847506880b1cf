"""Each drill against a syncer that is broken on purpose, in a way that it must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.processes.drills import DrillOptions
from tests.chaos.processes.run import run
from tests.chaos.processes.small import BROKEN_SECONDS, MANY, MUTANTS, OUTAGE_SECONDS, SEED

pytestmark = [pytest.mark.integration, pytest.mark.thorough, pytest.mark.timeout(900)]
LONG = ("away", "follow", "restart", "target")
"""Turns of a minute and more each: an outage has to end, or a syncer to come back, before anything
can be missed."""
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in MUTANTS]


@pytest.mark.parametrize("name", EACH)
async def test_what_is_broken_on_purpose_is_found(name: str, tmp_path: Path):
    options = DrillOptions(
        count=MANY,
        seed=SEED,
        seconds=OUTAGE_SECONDS,
        calm_seconds=BROKEN_SECONDS,
        mutant=MUTANTS[name],
    )
    report = await run(name, options, tmp_path)
    print(report)
    if report.why_skipped:
        pytest.skip(report.why_skipped)
    assert report.failed
