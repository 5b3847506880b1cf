"""The differences of a session with a target from one with the home cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.model.keys import ASSIGNMENT
from tests.support.syncer.sessions import put
from tests.support.syncer.two_clusters import SplitWorld


@pytest.fixture
def split() -> SplitWorld:
    return SplitWorld()


def test_one_node_stands_for_all_nodes_of_a_target(split: SplitWorld):
    assert [each.scope.get_shown_node("n") for each in (split.session, split.far)] == [
        "n",
        "target-c2",
    ]
    assert [each.scope.get_status_node("n") for each in (split.session, split.far)] == ["n", ""]


def test_only_a_target_is_unreachable_and_loses_its_grant(split: SplitWorld):
    split.far.target.problem = "silent"
    split.link.grants.update_granted({})
    sessions = (split.session, split.far)
    assert [each.scope.is_unreachable for each in sessions] == [False, True]
    assert [each.scope.is_grant_withdrawn for each in sessions] == [False, True]
    assert [each.is_home for each in sessions] == [True, False]


def test_a_target_needs_the_namespaces_of_its_pods_only(split: SplitWorld):
    entry: Any = split.tenant_has("Namespace", "web", namespace="")
    assert [each.scope.is_concerned("Namespace", entry) for each in (split.session, split.far)] == [
        True,
        False,
    ]
    split.twin(split.far)
    assert split.far.scope.is_concerned("Namespace", entry)


def test_pods_are_assigned_by_the_session_with_the_home_cluster(split: SplitWorld):
    split.pod()
    assert [key.kind for key in split.session.scope.iterate_unassigned()] == [ASSIGNMENT]
    assert not list(split.far.scope.iterate_unassigned())


async def test_missing_pods_are_no_proof_in_a_target(split: SplitWorld):
    def held(_: str) -> None:
        raise NotReadyYet("held")

    split.far.target.pod_loss_guard.check_not_held = held  # type: ignore[method-assign]
    split.session.scope.check_losses_not_held()
    await split.session.scope.prove_missing(0.0)
    with pytest.raises(NotReadyYet):
        split.far.scope.check_losses_not_held()


def test_a_pod_that_should_run_in_a_target_and_does_not_is_reported(split: SplitWorld):
    reported: list[Any] = []
    guard: Any = split.far.target.pod_loss_guard
    guard.replace_missing = lambda tenant, uids: reported.append((tenant, set(uids)))
    metadata = {"name": "p", "namespace": "web", "uid": "p-uid", "resourceVersion": "50"}
    running = {"spec": {"nodeName": "target-c2"}, "status": {"phase": "Running"}}
    put(split.link.stores["Pod"], {"kind": "Pod", "metadata": metadata, **running})
    split.session.scope.prepare_start()
    split.far.scope.prepare_start()
    assert reported == [(split.far.tenant.uid, {"p-uid"})]


def test_the_addresses_for_pods_follow_the_declared_network(split: SplitWorld):
    assert split.session.view.get_target_network is None
    source = split.far.view.get_target_network
    assert source is not None
    assert source().resolvers == ("10.98.0.10",)
