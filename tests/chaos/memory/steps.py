"""What can happen: the table of steps, and how a script is made from a seed.

Owns scripts: lists of plain steps that mean something whatever was left out before them, so that a
failing one can be cut down. A step names things by small numbers; one that finds nothing to act on
does nothing. Must not judge.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.chaos.memory import breakdowns, super_edits, tenant_edits

if TYPE_CHECKING:
    from tests.chaos.memory.world import MachineWorld

PAUSES = (0.0, 0.002, 0.01, 0.05, 0.3, 2.0, 10.0, 20.0)
"""Seconds between two steps: in the middle of a request, of a reconcile, or after everything."""
_TASTES = (0.1, 0.5, 1, 1, 4)


class MachineStep(NamedTuple):
    """One thing that happens, and how long the world then runs."""

    name: str
    numbers: tuple[int, ...]
    pause: float


MachineStepFunction = Callable[["MachineWorld", Sequence[int]], None]


def script(seed: int, length: int, weights: Mapping[str, float] | None = None) -> list[MachineStep]:
    """Return the script of a seed; `weights` says how often each step comes, else the table does.

    Each seed has its own taste: some steps come often in it and some never, and it may keep to a
    few objects, so that much happens to each of them.
    """
    chance = random.Random(seed)  # noqa: S311 - the same at each run
    often = weights or {name: weight for name, (weight, _) in STEPS.items()}
    tastes = {name: weight * chance.choice(_TASTES) for name, weight in often.items()}
    tastes |= {name: often[name] for name in ("make pod", "make space") if name in often}
    few = chance.choice((3, 8, 40))
    numbers = [[chance.randrange(1000) for _ in range(few)] for _ in range(3)]
    pauses = chance.sample(PAUSES, 3)
    steps = [MachineStep("wait", (0,), 12.0)] if chance.random() < 0.7 else []
    while len(steps) < length:
        name = chance.choices(tuple(tastes), tuple(tastes.values()))[0]
        where = (chance.choice(found) for found in numbers)
        how = (chance.randrange(1000) for _ in range(2))
        steps.append(MachineStep(name, (*where, *how), chance.choice(pauses)))
    return steps


def do(world: MachineWorld, step: MachineStep) -> None:
    """Have one step happen."""
    STEPS[step.name][1](world, step.numbers)


def _wait(_: MachineWorld, __: Sequence[int]) -> None:
    """Let time go by."""


STEPS: Mapping[str, tuple[int, MachineStepFunction]] = {
    "make space": (6, tenant_edits.make_space),
    "end space": (2, tenant_edits.end_space),
    "renew space": (1, tenant_edits.renew_space),
    "make": (10, tenant_edits.make),
    "edit": (8, tenant_edits.edit),
    "end": (5, tenant_edits.end),
    "make pod": (16, tenant_edits.make_pod),
    "edit pod": (5, tenant_edits.edit_pod),
    "end pod": (7, tenant_edits.end_pod),
    "renew pod": (4, tenant_edits.renew_pod),
    "make other": (8, tenant_edits.make_other),
    "edit other": (4, tenant_edits.edit_other),
    "end other": (3, tenant_edits.end_other),
    "make token pod": (4, tenant_edits.make_token_pod),
    "edit shown": (2, tenant_edits.edit_shown),
    "edit below": (5, super_edits.edit_below),
    "end below": (4, super_edits.end_below),
    "remake below": (2, super_edits.remake_below),
    "end space below": (1, super_edits.end_space_below),
    "stranger": (3, super_edits.stranger),
    "stranger leaves": (1, super_edits.stranger_leaves),
    "strip other below": (1, super_edits.strip_other_below),
    "end other below": (2, super_edits.end_other_below),
    "offer": (3, super_edits.offer),
    "taint": (1, super_edits.taint),
    "tell": (2, super_edits.tell),
    "disengage": (2, super_edits.disengage),
    "delete tenant": (1, super_edits.delete_tenant),
    "phase": (5, super_edits.phase),
    "fault": (12, breakdowns.fault),
    "cut": (4, breakdowns.cut),
    "compact": (3, breakdowns.compact),
    "hold": (4, breakdowns.hold),
    "kill": (4, breakdowns.kill),
    "stop": (1, breakdowns.stop),
    "freeze": (3, breakdowns.freeze),
    "partition": (1, breakdowns.partition),
    "snapshot": (4, breakdowns.snapshot),
    "restore": (5, breakdowns.restore),
    "bring back": (1, breakdowns.bring_back),
    "confirm": (1, breakdowns.confirm),
    "wait": (3, _wait),
}
"""Each step: how often it comes, and what it does."""


def written(steps: Sequence[MachineStep]) -> list[list[Any]]:
    """Return a script as JSON has it."""
    return [[step.name, list(step.numbers), step.pause] for step in steps]


def read(found: Sequence[Sequence[Any]]) -> list[MachineStep]:
    """Return the script of such JSON."""
    return [MachineStep(name, tuple(numbers), pause) for name, numbers, pause in found]
