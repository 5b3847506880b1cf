"""Steps of the machine: the table of what can happen, and scripts of it.

Each step is a function that takes a world and some small numbers. Must not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tests.chaos import scripts
from tests.chaos.memory import breakdowns, super_edits, tenant_edits
from tests.chaos.scripts import ScriptStep

if TYPE_CHECKING:
    from tests.chaos.memory.world import MachineWorld

MachineStepFunction = Callable[["MachineWorld", Sequence[int]], None]


def script(seed: int, length: int) -> list[ScriptStep]:
    """Return the script of a seed."""
    weights = {name: weight for name, (weight, _) in STEPS.items()}
    return scripts.build_script(seed, length, weights)


def do(world: MachineWorld, step: ScriptStep) -> None:
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
    "sleep": (2, super_edits.sleep),
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
