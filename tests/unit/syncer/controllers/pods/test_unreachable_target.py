"""A target that does not answer: its pods are not ready, and nothing else becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.controllers.pods.unreachable_target import TARGET_UNREACHABLE
from syncer.handlers.dispatcher import Dispatcher
from syncer.handlers.resync import Resync
from syncer.model.keys import HOME
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import SplitWorld, key_of

READY = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled"}]}


@pytest.fixture
def split(split: SplitWorld) -> SplitWorld:
    split.silent = 0.0  # type: ignore[attr-defined]
    target: Any = split.far.target
    target.problem, target.get_unreachable_seconds = "no route", lambda: split.silent  # type: ignore[attr-defined]
    return split


def engine(split: SplitWorld) -> Dispatcher:
    return Dispatcher({HOME: {TENANT.uid: split.session}, "c2": {TENANT.uid: split.far}})


def seated(split: SplitWorld, **metadata: Any) -> None:
    body = {"nodeName": "target-c2", "metadata": metadata}
    entry = split.pod(**body)
    found = {**entry.decode(), "status": READY}
    found["metadata"]["resourceVersion"] = "51"
    from tests.support.syncer.sessions import put  # noqa: PLC0415 - only here

    put(split.link.stores["Pod"], found)


async def test_its_pods_are_not_ready_after_a_while(split: SplitWorld):
    """V-02: nothing else is said of them, and no one is asked."""
    seated(split)
    found = await engine(split).reconcile(key_of(split.far))
    assert found == RequeueAfter(UNREACHABLE_SECONDS)
    assert split.above.writes() == []
    split.silent = UNREACHABLE_SECONDS  # type: ignore[attr-defined]
    assert await engine(split).reconcile(key_of(split.far)) == Done()
    (ready, scheduled) = split.above.bodies[-1]["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == (
        "Ready",
        "False",
        TARGET_UNREACHABLE,
    )
    assert scheduled == {"type": "PodScheduled"}
    assert split.there.asked == [], "nobody is asked"


async def test_one_that_is_being_deleted_stays_and_is_reported_with_the_reason(split: SplitWorld):
    split.silent = UNREACHABLE_SECONDS  # type: ignore[attr-defined]
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    seated(split, **going)
    split.above.refusals["get Event"] = errors.NotFound("none")
    for session in (split.far, split.session):
        await engine(split).reconcile(key_of(session))
    assert split.told() == [TARGET_UNREACHABLE]
    assert ("delete", "Pod", "p") not in split.above.writes()


async def test_nothing_else_is_worked_on_nor_resyncled(split: SplitWorld, monkeypatch: Any):
    split.tenant_has("ConfigMap", "c")
    await engine(split).reconcile(split.far.build_key("ConfigMap", "web", "c"))
    assert split.there.asked == []
    looked: list[str] = []

    async def look(_: Resync, session: Any) -> int:
        looked.append(session.name)
        return 0

    async def slept(_: float) -> None:
        if looked:
            raise RuntimeError("one round will do")

    monkeypatch.setattr(Resync, "resync_session", look)
    monkeypatch.setattr("asyncio.sleep", slept)
    sessions = {HOME: {TENANT.uid: split.session}, "c2": {TENANT.uid: split.far}}
    with pytest.raises(RuntimeError):
        await Resync(sessions).run()
    assert looked == [HOME]
