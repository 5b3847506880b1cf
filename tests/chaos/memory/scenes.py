"""Scenes: what happens is written by hand, and the machine plays and judges it in virtual time.

Owns how a scene is told to `tests.chaos.memory`: happenings, each with the seconds that the
world runs after it, and a rule that has a hand on every request. Must not judge: the invariants are
the machine's, and what a scene has to show besides stands in its test. Hazard: a scene in which
nothing happens breaks nothing. Each must show that what it is about came to pass.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any
from unittest import mock

import structlog

from kubeio.http.transport_protocol import HttpRequest
from tests.chaos.memory import judge, network, run, steps
from tests.chaos.memory.run import RunOutcome
from tests.chaos.memory.world import MachineWorld
from tests.chaos.scripts import ScriptStep
from tests.support.memapi.direct import RequestFate

SceneEvent = Callable[[MachineWorld], Any]
SceneRule = Callable[[str, HttpRequest, network.NetworkSender], RequestFate | None]
"""Given the side, the request and who sends it. None leaves it to the machine."""


def play(
    *happenings: tuple[SceneEvent, float],
    rule: SceneRule | None = None,
    tenants: int = 1,
    replicas: int = 1,
    excused: Collection[str] = (),
) -> RunOutcome:
    """Play a scene from a world at rest to its rest. Returns what was broken.

    `excused` are invariants that do not hold in it, as what they forbid is what it is about.
    """
    script = [ScriptStep("wait", (0,), 12.0)]
    named: dict[str, tuple[int, steps.MachineStepFunction]] = {}
    for number, (happening, seconds) in enumerate(happenings):
        name = f"{number} {getattr(happening, '__name__', 'scene')}"
        named[name] = (0, _do(happening))
        script.append(ScriptStep(name, (), seconds))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_silent())
        stack.enter_context(mock.patch.dict(steps.STEPS, named))
        stack.enter_context(
            mock.patch.object(
                run,
                "MachineWorld",
                lambda loop, seed, **_: MachineWorld(
                    loop, seed, tenants=tenants, replicas=replicas
                ),
            )
        )
        stack.enter_context(mock.patch.object(judge.WorldChecker, "broke", _but(excused)))
        if rule is not None:
            stack.enter_context(mock.patch.object(network.NetworkFaults, "fate", _ruled(rule)))
        return run.run(1, script)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Have no one write down what is told. The trace says more."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def _do(happening: SceneEvent) -> steps.MachineStepFunction:
    def do(world: MachineWorld, _: Sequence[int]) -> None:
        happening(world)

    return do


def _but(excused: Collection[str]) -> Callable[..., None]:
    broke = judge.WorldChecker.broke

    def told(self: judge.WorldChecker, rule: str, text: str) -> None:
        if rule not in excused:
            broke(self, rule, text)

    return told


def _ruled(rule: SceneRule) -> Callable[..., RequestFate]:
    fate = network.NetworkFaults.fate

    def ruled(
        self: network.NetworkFaults, side: str, request: HttpRequest, sender: network.NetworkSender
    ) -> RequestFate:
        found = None if sender.is_dead else rule(side, request, sender)
        return fate(self, side, request, sender) if found is None else found

    return ruled


def told(outcome: RunOutcome) -> str:
    """The broken rules, for an assertion."""
    return "\n".join(f"{each.rule}: {each.text}" for each in outcome.breaks)
