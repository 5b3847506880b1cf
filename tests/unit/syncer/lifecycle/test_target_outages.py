"""Outages of targets: what is queued when they begin, while they last, and when they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.lifecycle.target_outages import TargetOutages
from syncer.model.keys import NODE
from tests.support.syncer.two_clusters import SplitWorld

NODE_NAME = "target-c2"


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    target: Any = made.far.target
    target.get_unreachable_seconds = lambda: 12.0
    target.pod_loss_guard.is_tenant_held = lambda _: False
    made.twin(made.far)
    made.pod()
    made.taken()
    return made


def keys(split: SplitWorld) -> set[tuple[str, str]]:
    """Return kind and name of the keys of the target that are queued."""
    return {(key.kind, key.name) for key in split.taken() if key.super_cluster == "c2"}


@pytest.mark.parametrize(
    ("before", "now", "is_all"),
    [
        pytest.param(("", False), ("", False), False, id="well"),
        pytest.param(("", False), ("silent", False), False, id="outage begins"),
        pytest.param(("silent", False), ("silent", False), False, id="outage lasts"),
        pytest.param(("silent", False), ("", False), True, id="outage ends"),
        pytest.param(("", True), ("", True), False, id="losses held"),
        pytest.param(("", True), ("", False), True, id="losses no longer held"),
        pytest.param(("", True), ("silent", False), False, id="hold ends in an outage"),
    ],
)
async def test_every_key_is_queued_after_an_outage_or_a_hold(
    split: SplitWorld, before: tuple[str, bool], now: tuple[str, bool], is_all: bool
):
    outages, target = TargetOutages(lambda: None), split.far.target
    for problem, is_held in (before, now):
        split.taken()
        target.problem = problem
        target.pod_loss_guard.is_tenant_held = lambda _, held=is_held: held  # type: ignore[method-assign, misc]
        outages.handle_change(split.far)
    found = keys(split)
    assert (NODE, NODE_NAME) in found, "the node always reports the present state"
    assert (("Pod", "p") in found) is is_all
    outages.close()


async def test_an_outage_is_reported_that_long_after_the_last_answer(
    split: SplitWorld, monkeypatch: pytest.MonkeyPatch
):
    later: list[tuple[Any, float]] = []
    monkeypatch.setattr(split.far.queue, "add_after", lambda *asked, **_: later.append(asked))
    outages, began = TargetOutages(lambda: None), asyncio.get_running_loop().time()
    split.far.target.problem = "silent"
    outages.handle_change(split.far)
    left = UNREACHABLE_SECONDS - 12.0
    assert later == [(split.far.build_key("Pod", "web", "p"), left)]
    assert outages._timers["c2"].when() == pytest.approx(began + left, abs=1.0)
    outages.close()
    assert outages._timers["c2"].cancelled()
