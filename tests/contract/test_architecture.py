"""ARCHITECTURE's walk of one Pod against the files and strata of the repository."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from tools.packages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
_STRATA = re.compile(r"^\| `(\w+)` \| (`app`.*|`controller`.*) \|$", re.MULTILINE)
_PACKAGES = ("syncer", "kubeio")
"""Packages of the walk, the importing one first."""


def read_walk() -> tuple[str, list[Path]]:
    """Return the section of the walk, and the files of its table in order."""
    section = TEXT.partition("### One Pod,")[2].partition("\n### ")[0]
    return section, [
        Path(each) for each in re.findall(r"^\| \d+ \| `(.*?)` \|", section, re.MULTILINE)
    ]


def find_rank(path: Path) -> tuple[int, int]:
    """Return package and stratum of a file. A smaller rank imports a larger one."""
    strata = dict(_STRATA.findall(TEXT))
    folders = [re.findall(r"`(\w+)`", each) for each in strata[path.parts[0]].split(",")]
    stratum = next(n for n, names in enumerate(folders) if path.parts[1] in names)
    return _PACKAGES.index(path.parts[0]), stratum


def test_the_walk_has_at_most_ten_files_that_exist_and_are_named_once():
    section, files = read_walk()
    assert 5 < len(files) <= 10
    assert [str(path) for path in files if not (ROOT / path).is_file()] == []
    named = re.findall(r"\b(?:\w+/)*\w+\.py\b", section)
    assert sorted(named) == sorted(set(map(str, files)))


def test_the_walk_names_each_step_to_a_higher_stratum():
    section, files = read_walk()
    named = {(int(a), int(b)) for a, b in re.findall(r"\((\d+) to (\d+)\)", section)}
    ranks = [find_rank(path) for path in files]
    numbered = enumerate(pairwise(ranks), start=1)
    assert named == {(n, n + 1) for n, (before, after) in numbered if after < before}
