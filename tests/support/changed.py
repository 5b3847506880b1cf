"""The long test files that a landing touches: `python -m tests.support.changed FOLDER...`.

Prints the test files in the folders that changed since the landing before, or that import a changed
module, as many as fit into the budget. The rest goes to standard error. A landing is a commit that
changes `.ci/landing`.

Hazard: a clone without history has no landing before. Then nothing is chosen, and a message reports
that.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support import shards

ROOT = Path(__file__).parents[2]
LANDING = Path(".ci") / "landing"
BUDGET_SECONDS = 480.0
"""Budget of one landing in seconds, for all folders together."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the chosen test files. Return 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.changed", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="for example tests/node")
    parser.add_argument("--seconds", type=float, default=BUDGET_SECONDS, help="what all may take")
    asked = parser.parse_args(arguments)
    base = before()
    if base is None:
        _say("no landing before this one is known here: no test is chosen because of a change")
        return 0
    changed = set(_git("diff", "--name-only", "--no-renames", base).split())
    files = sorted(
        path.relative_to(ROOT)
        for folder in asked.folders
        for path in (ROOT / folder).rglob("test_*.py")
    )
    durations = shards.read()
    took = {
        str(file): shards.seconds(str(file), [shards.USUAL, shards.THOROUGH], durations)
        for file in files
    }
    themselves, importing = touched(files, changed)
    names = [*themselves, *sorted(importing, key=lambda name: took[name])]
    kept, left = fitting(names, took, asked.seconds)
    _say(f"{len(changed)} files changed since {base[:12]}: {len(kept)} test files are touched")
    for name in left:
        _say(f"left out, for more than {asked.seconds:.0f} s: {name} ({took[name]:.0f} s)")
    print("\n".join(kept))
    return 0


def before() -> str | None:
    """Return the commit of the landing before the one that is checked out. None if unknown."""
    landings = _git("log", "--format=%H", "--max-count=2", "--", str(LANDING)).split()
    head = _git("rev-parse", "--verify", "--quiet", "HEAD").strip()
    if landings and landings[0] != head:
        return landings[0]
    return landings[1] if len(landings) > 1 else _parent(head)


def _parent(commit: str) -> str | None:
    return _git("rev-parse", "--verify", "--quiet", f"{commit}~1").strip() or None


def touched(files: Iterable[Path], changed: set[str]) -> tuple[list[str], list[str]]:
    """Return the test files that changed, and those that import what did."""
    every = [str(file) for file in files]
    themselves = [name for name in every if name in changed]
    importing = [
        name
        for name in every
        if name not in changed and imported((ROOT / name).read_text()) & changed
    ]
    return themselves, importing


def imported(text: str) -> set[str]:
    """Return the files that a module's text may import from, relative to the repository."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=found):
                names |= {each.name for each in found}
            case ast.ImportFrom(module=str(module), names=found, level=0):
                names |= {module, *(f"{module}.{each.name}" for each in found)}
    paths = {name.replace(".", "/") for name in names}
    return {f"{path}.py" for path in paths} | {f"{path}/__init__.py" for path in paths}


def fitting(
    names: Sequence[str], took: dict[str, float], budget: float
) -> tuple[list[str], list[str]]:
    """Return what fits into the budget, in its order, and what does not."""
    kept: list[str] = []
    left: list[str] = []
    for name in names:
        if took[name] <= budget:
            kept.append(name)
            budget -= took[name]
        else:
            left.append(name)
    return kept, left


def _git(*words: str) -> str:
    """Return the output of git. Empty if it fails, for example without a repository."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
