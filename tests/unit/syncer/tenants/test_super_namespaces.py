"""When a super namespace may be written into, and what its default policies select by."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from kubeio.controller.worker import NotReadyYet
from syncer.model.keys import DEFAULT_POLICY, Key
from tenancy import names
from tenancy.policies import BASELINE_POLICY
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.two_clusters import SplitWorld


def taken(world: SessionWorld) -> set[Key]:
    return set(iter(world.link.queue.take, None))


def furnish(world: SessionWorld) -> None:
    """Have a namespace with its account and its policies."""
    world.ready()
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT)


def test_a_furnished_namespace_is_ready():
    world = SessionWorld()
    furnish(world)
    found = world.session.namespaces.get_ready(world.key("Pod", "web", "p"))
    assert found.name == world.below.space
    assert not taken(world)


@pytest.mark.parametrize(
    "fields", [{"uid": "another"}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}]
)
def test_a_foreign_namespace_and_one_that_is_deleted_are_not(fields: dict[str, Any]):
    world = SessionWorld()
    furnish(world)
    fields["metadata"] = {"resourceVersion": "61", **fields.get("metadata", {})}
    world.super_has("Namespace", "web", "web", **fields)
    pod = world.key("Pod", "web", "p")
    with pytest.raises(NotReadyYet, match="super namespace"):
        world.session.namespaces.get_ready(pod)
    world.session.work.wake_waiters(world.key("Namespace", "", "web"))
    assert taken(world) == {pod}


def test_a_missing_default_policy_is_queued_and_wakes_the_key():
    world = SessionWorld()
    furnish(world)
    name = names.DEFAULT_POLICIES[0]
    store = world.session.twins.get_store("NetworkPolicy")
    entry = store.get(world.below.space, name)
    assert entry is not None
    store.discard(entry, live=True)
    pod, policy = world.key("Pod", "web", "p"), world.key(DEFAULT_POLICY, "web", name)
    with pytest.raises(NotReadyYet, match="default network policies"):
        world.session.namespaces.get_ready(pod)
    assert taken(world) == {policy}
    world.session.work.wake_waiters(policy)
    assert taken(world) == {pod}


def test_only_a_target_queues_a_namespace_that_a_key_waits_for():
    split = SplitWorld()
    split.tenant_has("Namespace", "web", namespace="")
    split.taken()
    for session, queued in ((split.session, set()), (split.far, {("c2", "Namespace")})):
        with pytest.raises(NotReadyYet):
            session.namespaces.get_ready(session.build_key("Pod", "web", "p"))
        assert {(key.super_cluster, key.kind) for key in split.taken()} == queued


@pytest.mark.parametrize("isolation", ["Enforced", "Off"])
def test_pods_have_labels_of_policies_only_where_default_policies_are(isolation: str):
    network = structs.replace(BASELINE_POLICY.network, isolation=isolation)
    world = SessionWorld(structs.replace(BASELINE_POLICY, network=network))
    world.tenant_has("NetworkPolicy", "p", spec={"podSelector": {}, "policyTypes": ["Ingress"]})
    world.session.network_indexes.fill(world.session.stores, world.session.tenant.uid)
    found = world.session.namespaces.build_policy_labels("web", {})
    assert bool(found) is (isolation == "Enforced")
