"""Rows of reliability as scenes: wires that cut, lose, slow down, double and garble."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.chaos.memory import rest
from tests.chaos.memory import tenant_edits as edits
from tests.chaos.memory.happenings import (
    T0,
    SceneFacts,
    between,
    config_map,
    holds,
    label,
    now,
    pod,
    silent,
    space,
)
from tests.chaos.memory.scenes import play
from tests.chaos.memory.world import MachineWorld
from tests.support.memapi.direct import RequestFate


@pytest.mark.parametrize("side", ["super", "tenant0"])
def test_a_firewall_that_forgets_watches_is_noticed(side: str):
    """REL-46: within 75 seconds, and what happened meanwhile arrives."""
    seen = SceneFacts()
    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 5.0),
        (silent(side), 0.5),
        (pod(1), 0.0),
        (label(1), 75.0),
        (seen.that("open", rest.problems), 0.0),
    )
    holds(outcome)
    assert seen["open"] == []


@pytest.mark.parametrize("seconds", [1.0, 10.0, 60.0, 600.0])
@pytest.mark.parametrize("way", ["there", "back", "watches"])
@pytest.mark.parametrize("side", ["super", "tenant0"])
def test_one_way_is_cut_for_a_while(side: str, way: str, seconds: float):
    """REL-48: what is sent, what is answered, or what is told, between the syncer and one side."""
    fates = {"there": RequestFate(is_swallowed=True), "back": RequestFate(is_unanswered=True)}

    def cut(world: MachineWorld) -> None:
        taps = world.faults.of(side)
        for tap in taps:
            tap.hold()
            if way == "watches":
                world.loop.call_later(seconds, tap.release)

    rule = between(4.0, 4.0 + seconds, lambda: fates[way], side) if way in fates else None
    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 4.0),
        (cut, seconds / 4),
        (pod(1), seconds / 4),
        (lambda world: edits.renew_pod(world, (0, 1, 0, 0, 1)), seconds / 4),
        (config_map(1), seconds / 4),
        rule=rule,
    )
    holds(outcome)


def _doubled(lines: Sequence[bytes]) -> list[bytes]:
    return [line for line in lines for _ in range(2)]


def _shuffled(lines: Sequence[bytes]) -> list[bytes]:
    return random.Random(49).sample(list(lines), len(lines))  # noqa: S311 - the same each time


def _garbled(lines: Sequence[bytes]) -> list[bytes]:
    return [line[: len(line) // 2] + b"\n" for line in lines]


def _replayed(lines: Sequence[bytes]) -> list[bytes]:
    return [*lines, *lines[::-1], *lines]


@pytest.mark.parametrize("order", [_doubled, _shuffled, _garbled, _replayed])
@pytest.mark.parametrize("side", ["super", "tenant0"])
def test_watches_that_report_late_twice_in_disorder_or_nonsense(side: str, order: Any):
    """REL-49: and all of it again and again, while things change."""

    def hold(world: MachineWorld) -> None:
        taps = world.faults.of(side)
        for tap in taps:
            tap.hold()
            world.loop.call_later(2.5, tap.release, order)

    turn = (
        (hold, 0.0),
        (label(1), 0.5),
        (lambda world: edits.renew_pod(world, (0, 1, 0, 1, 2)), 0.5),
        (config_map(1), 0.5),
        (lambda world: edits.end_pod(world, (0, 1, 1, 2)), 0.5),
        (pod(1), 2.0),
        (config_map(2), 1.0),
    )
    holds(play((config_map(0), 0.0), (pod(needs=1), 4.0), *(turn * 5)))


def test_half_an_hour_of_slow_and_lossy_wires():
    """REL-54: 300 ms there and back, one of fifty lost: no one gives up the Lease for that."""
    chance = random.Random(54)  # noqa: S311 - the same at each run

    def rule(*_: Any) -> RequestFate | None:
        if now() < T0:
            return None
        is_lost = chance.random() < 0.02
        return (
            RequestFate(is_lost=True, after=0.3)
            if is_lost
            else RequestFate(before=0.15, after=0.15)
        )

    outcome = play(
        (space, 1.0),
        *((pod(number % 3), 20.0) for number in range(30)),
        *((label(number), 20.0) for number in range(60)),
        rule=rule,
    )
    holds(outcome)
    assert outcome.starts == 1
    assert outcome.seconds > 1800
