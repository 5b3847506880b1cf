"""Events of a target: missing pods, needs of moved twins, and its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.handlers.target_events import TargetEvents
from syncer.model.keys import NODE
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import SplitWorld


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    made.seen = []  # type: ignore[attr-defined]
    guard: Any = made.far.target.pod_loss_guard
    for name in ("add_missing", "remove_missing"):
        setattr(guard, name, lambda _, uid, what=name: made.seen.append((what, uid)))  # type: ignore[attr-defined]
    TargetEvents(made.far.target, {TENANT.uid: made.far}).subscribe()
    return made


@pytest.mark.parametrize(
    ("live", "spec", "is_missing"),
    [
        pytest.param(False, {"nodeName": "n"}, True, id="absent from a list"),
        pytest.param(True, {"nodeName": "n"}, False, id="deleted"),
        pytest.param(False, {}, False, id="never bound"),
    ],
)
def test_only_a_bound_twin_that_vanished_without_event_is_missing(
    split: Any, live: bool, spec: dict[str, Any], is_missing: bool
):
    twin = split.twin(split.far, **spec)
    assert split.seen == [("remove_missing", "p-uid")], "it is present"
    split.seen.clear()
    split.far.twins.get_store("Pod").discard(twin, live=live)
    assert split.seen == [("add_missing", "p-uid")] * is_missing


def test_the_end_of_a_twin_ends_the_needs_of_its_pod_in_a_withdrawn_target(split: Any):
    split.link.grants.update_granted({})
    twin = split.twin(split.far)
    split.pod(nodeName="target-c2")
    assert split.far.pods.has("web", "p")
    split.taken()
    split.far.twins.get_store("Pod").discard(twin, live=True)
    assert not split.far.pods.has("web", "p")
    assert "Namespace" in {key.kind for key in split.taken()}


async def test_a_change_of_nodes_queues_the_node_of_the_target(
    split: Any, monkeypatch: pytest.MonkeyPatch
):
    later: list[Any] = []
    monkeypatch.setattr(split.far.queue, "add_after", lambda key, *_, **__: later.append(key))
    node = split.far.super_cluster.nodes.list()[0]
    split.far.super_cluster.nodes.discard(node, live=True)
    assert later == [split.far.build_key(NODE, "", "target-c2")]
