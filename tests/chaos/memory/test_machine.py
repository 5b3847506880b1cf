"""The machine that looks for what we missed, in small. It is `tests.chaos.memory`.

Each way in which the product is broken on purpose has a witness: a script that breaks a rule then,
and none otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.mutants import MUTANTS

ROOT = Path(__file__).parents[3]
SEEDS = ("--seeds", "60", "--from", "1", "--minutes", "3")
_EACH = 200
MANY = range(1000, 4000, _EACH)
"""The first of two hundred seeds each, all of them eight minutes of a core for a thousand. The same
each time, so that a change is found by who made it. Others are tried by hand. A landing tries a
part of five of these."""
_LONGEST = ("--minutes", "10")
"""For two hundred: with less time the last ones would be tried on fast machines only."""
_PARTS = 4
EXPLAINED = Path(__file__).parent / "explained"
"""Scripts that failed, cut down, and are no witness. `docs/machine.md` says what was wrong."""


def machine(*arguments: str) -> str:
    """Run the program: sets have an order that only a process of its own can fix."""
    command = [sys.executable, "-m", "tests.chaos.memory", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_nothing_is_broken(tmp_path):
    """FIG-20 in small."""
    machine(*SEEDS, "--folder", str(tmp_path))


@pytest.mark.parametrize("first", range(_PARTS))
def test_what_is_broken_on_purpose_is_found(first):
    machine("--witness", *tuple(MUTANTS)[first::_PARTS])


@pytest.mark.parametrize("script", sorted(EXPLAINED.iterdir()), ids=lambda path: path.stem)
def test_what_was_explained_no_longer_fails(script):
    machine("--replay", str(script))


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", MANY)
def test_nothing_is_broken_at_length(first, tmp_path):
    said = machine(
        "--seeds", str(_EACH), "--from", str(first), *_LONGEST, "--folder", str(tmp_path)
    )
    assert " 0 not tried;" in said
