"""Scripts: lists of plain steps, each made from a seed.

A step keeps its meaning whatever is left out before it, so that a failing script can be cut down. A
step names things by small numbers, and one that finds nothing to act on does nothing. Each driver
has a table of the steps that it can do. Must not judge.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PAUSES = (0.0, 0.002, 0.01, 0.05, 0.3, 2.0, 10.0, 20.0)
"""Seconds between two steps: in the middle of a request, of a reconcile, or after everything."""
_TASTES = (0.1, 0.5, 1, 1, 4)
_NEEDED = ("make pod", "make space")


class ScriptStep(NamedTuple):
    """One thing that happens, and how long everything then runs."""

    name: str
    numbers: tuple[int, ...]
    pause: float


def build_script(seed: int, length: int, weights: Mapping[str, float]) -> list[ScriptStep]:
    """Return the script of a seed. `weights` has the frequency of each step.

    Each seed has its own taste: some steps come often in it and some never, and it may keep to a
    few objects, so that much happens to each of them.
    """
    chance = random.Random(seed)  # noqa: S311 - the same at each run
    tastes = {name: weight * chance.choice(_TASTES) for name, weight in weights.items()}
    tastes |= {name: weights[name] for name in _NEEDED if name in weights}
    few = chance.choice((3, 8, 40))
    numbers = [[chance.randrange(1000) for _ in range(few)] for _ in range(3)]
    pauses = chance.sample(PAUSES, 3)
    steps = [ScriptStep("wait", (0,), 12.0)] if chance.random() < 0.7 else []
    while len(steps) < length:
        name = chance.choices(tuple(tastes), tuple(tastes.values()))[0]
        where = (chance.choice(found) for found in numbers)
        how = (chance.randrange(1000) for _ in range(2))
        steps.append(ScriptStep(name, (*where, *how), chance.choice(pauses)))
    return steps


def dump(steps: Sequence[ScriptStep]) -> list[list[Any]]:
    """Return a script as JSON has it."""
    return [[step.name, list(step.numbers), step.pause] for step in steps]


def load(found: Sequence[Sequence[Any]]) -> list[ScriptStep]:
    """Return the script of such JSON."""
    return [ScriptStep(name, tuple(numbers), pause) for name, numbers, pause in found]
