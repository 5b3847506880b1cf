"""Parked differences: when a write is left out, what the Event says, and what ends the pause."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from prometheus_client import REGISTRY

from kubeio.cache.store import parse_entry
from syncer.model.keys import HOME, Key
from syncer.safety.hot_loop_guard import (
    REPEAT_WINDOW_SECONDS,
    REPEATS_TO_PARK,
    HotLoopGuard,
    WriteScope,
)
from syncer.safety.parked_differences import (
    SUPER_SIDE,
    SYNC_PARKED,
    TENANT_SIDE,
    ParkedDifferences,
)
from tenancy.resources import PODS

KEY = Key("vc-uid", HOME, "Pod", "web", "p")
BEFORE: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"x": 1}}
BODY: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"x": 2}}
TENANT_X = parse_entry(
    orjson.dumps(
        {"metadata": {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": "5"}}
    )
)


class World:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.changes = 0
        self.now = 0.0
        guard = HotLoopGuard(lambda: self.now)
        self.parked = ParkedDifferences(guard, self, self._count_change)

    def _count_change(self) -> None:
        self.changes += 1

    async def record(self, *_: Any, reason: str, message: str) -> None:
        self.events.append((reason, message))

    async def attempt(
        self,
        side: str,
        answer: dict[str, Any],
        *,
        is_reported: bool = True,
        subresource: str = "",
    ) -> None:
        scope = WriteScope(KEY, side, subresource)
        for _ in range(REPEATS_TO_PARK):
            assert not self.parked.has(scope, BODY, BEFORE)
            await self.parked.count_attempt(
                scope,
                BODY,
                before=BEFORE,
                answer=answer,
                resource=PODS,
                tenant_x=TENANT_X if is_reported else None,
            )


def count_parked(side: str) -> float:
    return REGISTRY.get_sample_value("vc_diffs_parked_total", {"side": side}) or 0.0


@pytest.mark.parametrize(
    ("side", "answer", "words"),
    [
        (SUPER_SIDE, BEFORE, "are not accepted in the super cluster"),
        (TENANT_SIDE, BEFORE, "are not accepted in this cluster"),
        (SUPER_SIDE, BODY, "are reset in the super cluster each time"),
        (TENANT_SIDE, BODY, "are reset in this cluster each time"),
    ],
)
async def test_repeated_difference_is_parked_and_the_event_names_the_path(side, answer, words):
    world = World()
    before = count_parked(side)
    await world.attempt(side, answer)
    assert count_parked(side) == before + 1
    assert world.parked.has(WriteScope(KEY, side), BODY, BEFORE)
    [(reason, message)] = world.events
    assert reason == SYNC_PARKED
    assert message.startswith("spec.x: ")
    assert words in message
    assert world.changes == 1


async def test_another_body_is_not_parked():
    world = World()
    await world.attempt(SUPER_SIDE, BEFORE)
    other = {**BODY, "spec": {"x": 3}}
    assert not world.parked.has(WriteScope(KEY, SUPER_SIDE), other, BEFORE)
    assert not world.parked.has(WriteScope(KEY, TENANT_SIDE), BODY, BEFORE)


@pytest.mark.parametrize(("subresource", "named"), [("", ()), ("", ("",)), ("status", ("status",))])
async def test_converged_part_is_written_again(subresource, named):
    world = World()
    await world.attempt(SUPER_SIDE, BEFORE, subresource=subresource)
    world.now += REPEAT_WINDOW_SECONDS
    world.parked.clear_if_converged(KEY, SUPER_SIDE, *named)
    assert not world.parked.has(WriteScope(KEY, SUPER_SIDE, subresource), BODY, BEFORE)
    assert world.changes == 2


async def test_write_without_a_tenant_object_gets_no_event():
    world = World()
    await world.attempt(SUPER_SIDE, BEFORE, is_reported=False)
    assert world.events == []
    assert world.changes == 1
