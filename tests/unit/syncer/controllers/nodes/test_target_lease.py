"""The lease of the node that stands for a target is renewed by its answers and by nothing else."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeio.controller.worker import Done, RequeueAfter
from syncer.controllers.nodes import target_lease
from syncer.controllers.nodes.target_lease import RENEW_SECONDS
from syncer.handlers.dispatcher import Dispatcher
from syncer.model.keys import LEASE, Key
from tenancy import wellknown
from tests.support.syncer.sessions import TENANT, put
from tests.support.syncer.two_clusters import SplitWorld


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    target: Any = made.far.target
    target.name, target.answered_at, made.now = "c2", time.monotonic(), 100.0  # type: ignore[attr-defined]
    made.far.node_memory._clock = lambda: made.now  # type: ignore[attr-defined]
    return made


def shown(split: SplitWorld, **annotations: str) -> None:
    metadata = {"name": "target-c2", "uid": "n1", "resourceVersion": "9"}
    marked = {**metadata, "annotations": annotations or {wellknown.SUPER_CLUSTER: "r1"}}
    put(split.link.stores["Node"], {"metadata": marked, "spec": {}})


def key_of(split: SplitWorld) -> Key:
    return split.far.build_key(LEASE, "kube-node-lease", "target-c2")


async def renewed(split: SplitWorld) -> Any:
    return await Dispatcher({"c2": {TENANT.uid: split.far}}).reconcile(key_of(split))


async def test_it_reports_when_the_target_answered_and_goes_with_its_node(split: SplitWorld):
    shown(split)
    split.far.target.answered_at = time.monotonic() - 9  # type: ignore[union-attr]
    assert await renewed(split) == RequeueAfter(RENEW_SECONDS)
    assert split.above.writes() == [("apply", "Lease", "target-c2")]
    body = split.above.bodies[-1]
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "target-c2", "n1")
    assert body["spec"]["leaseDurationSeconds"] == 40
    age = datetime.now(UTC) - datetime.fromisoformat(body["spec"]["renewTime"])
    assert timedelta(seconds=8) < age < timedelta(seconds=20)


async def test_it_is_written_once_in_ten_seconds_whoever_asks(split: SplitWorld):
    shown(split)
    split.taken()
    target_lease.enqueue_lease(split.far)
    assert split.taken() == {key_of(split)}
    await renewed(split)
    split.now += 4  # type: ignore[attr-defined]
    target_lease.enqueue_lease(split.far)
    assert split.taken() == set()
    assert await renewed(split) == RequeueAfter(RENEW_SECONDS - 4)
    assert len(split.above.writes()) == 1
    split.now += 6  # type: ignore[attr-defined]
    await renewed(split)
    assert len(split.above.writes()) == 2


async def test_a_target_that_is_away_has_none_renewed(split: SplitWorld):
    shown(split)
    target: Any = split.far.target
    target.problem, target.get_unreachable_seconds = "no route", lambda: 1.0
    assert await renewed(split) == Done()
    assert split.above.writes() == []


async def test_without_its_node_there_is_none(split: SplitWorld):
    assert await renewed(split) == Done()
    shown(split, mine="1")
    assert await renewed(split) == Done(), "the tenant's own node has the name"
    assert split.above.writes() == []
