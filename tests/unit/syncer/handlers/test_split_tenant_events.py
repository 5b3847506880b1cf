"""Pods of a tenant with several clusters: indexed in one session, and assigned in the home."""

from __future__ import annotations

import pytest

from syncer.model.keys import ASSIGNMENT
from tenancy.super_clusters import HOME
from tests.support.syncer.two_clusters import SplitWorld


@pytest.fixture
def split() -> SplitWorld:
    return SplitWorld()


def indexed(split: SplitWorld) -> list[str]:
    """Return the clusters whose session has the pod in its index."""
    return [each.name for each in (split.session, split.far) if each.pods.has("web", "p")]


@pytest.mark.parametrize(
    ("record", "clusters", "is_assigned"),
    [("", [], False), ("c2/0", ["c2"], True), ("home/0", [HOME], True)],
)
def test_a_pod_is_indexed_where_it_is_assigned(
    split: SplitWorld, record: str, clusters: list[str], is_assigned: bool
):
    split.pod(record=record)
    assert indexed(split) == clusters
    assert (ASSIGNMENT in {key.kind for key in split.taken()}) is not is_assigned


def test_a_reassigned_pod_moves_to_the_index_of_the_other_session(split: SplitWorld):
    pod = split.pod(record="c2/0")
    split.link.assignments.close_assignment(pod)
    split.link.assignments.reassign(pod, HOME)
    assert indexed(split) == [HOME]


def test_another_record_queues_the_assignment_of_a_pod_that_is_not_bound(split: SplitWorld):
    split.pod(record="c2/0")
    split.taken()
    split.pod(record="home/0", version=51)
    assert indexed(split) == ["c2"], "a tenant may write any record"
    assert ASSIGNMENT in {key.kind for key in split.taken()}


def test_a_pod_of_another_cluster_without_twin_is_not_queued(split: SplitWorld):
    split.pod(record="c2/0")
    assert {key.super_cluster for key in split.taken() if key.kind == "Pod"} == {"c2"}


def test_a_pod_of_a_withdrawn_target_has_needs_while_its_twin_exists(split: SplitWorld):
    split.link.grants.update_granted({})
    split.pod(nodeName="target-c2")
    assert indexed(split) == []
    split.twin(split.far)
    split.pod(nodeName="target-c2", version=51)
    assert indexed(split) == ["c2"]


def test_a_deleted_service_is_forgotten(split: SplitWorld):
    entry = split.tenant_has("Service", "s", spec={})
    split.link.service_clusters.record_split(entry.uid)
    split.link.stores["Service"].discard(entry, live=True)
    assert not split.link.service_clusters.is_split(entry.uid)


def test_the_end_of_a_pod_ends_its_assignment_and_its_loss(split: SplitWorld):
    ended: list[str] = []
    guard = split.far.target.pod_loss_guard
    guard.remove_deleted = lambda _, uid: ended.append(uid)  # type: ignore[method-assign]
    entry = split.pod(record="c2/0")
    split.link.stores["Pod"].discard(entry, live=True)
    assert ended == ["p-uid"]
    assert split.link.assignments.count_pods("c2") == 0
