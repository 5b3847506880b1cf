"""The default policies of a super namespace are written, restored, waited for and deleted."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.handlers import dependents
from syncer.model.keys import DEFAULT_POLICY
from syncer.rules import registry
from tenancy import names
from tenancy.wellknown import POLICED_EGRESS, POLICED_INGRESS
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.tenant_views import policy

POLICY = registry.KINDS_BY_NAME["NetworkPolicy"]


def bare(world: SessionWorld) -> None:
    """Have a namespace and its account, and no policies."""
    world.tenant_has("Namespace", "web", namespace="")
    world.super_has("Namespace", "web", "web")
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT)


async def test_a_namespace_without_policies_is_not_ready():
    world = SessionWorld()
    bare(world)
    key = world.key("Pod", "web", "p")
    with pytest.raises(NotReadyYet, match="default network policies"):
        world.session.namespaces.get_ready(key)
    world.has_default_policies()
    assert world.session.namespaces.get_ready(key)


def test_a_super_policy_of_a_reserved_name_has_a_key_of_its_own():
    world = SessionWorld()
    world.ready()
    for name in names.DEFAULT_POLICIES:
        entry = world.session.twins.get_store("NetworkPolicy").get(world.below.space, name)
        assert entry is not None
        key = world.super_cluster.get_key("NetworkPolicy", entry)
        assert key == world.key(DEFAULT_POLICY, "web", name)


BOTH = {POLICED_INGRESS: "true", POLICED_EGRESS: "true"}
EVERY_POD = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


async def test_a_session_that_begins_on_filled_caches_knows_their_policies():
    world = SessionWorld()
    world.tenant_has("NetworkPolicy", "p", spec=EVERY_POD)
    assert world.session.namespaces.build_policy_labels("web", {}) == {}
    world.session.start()
    assert world.session.namespaces.build_policy_labels("web", {}) == BOTH


def test_a_policy_queues_the_pods_that_it_begins_and_ceases_to_select(
    monkeypatch: pytest.MonkeyPatch,
):
    world = SessionWorld()
    for name in ("a", "b"):
        world.tenant_has("Pod", name, metadata={"labels": {"app": name}}, spec={"containers": []})
    queued: list[str] = []
    monkeypatch.setattr(world.session.queue, "add", lambda key, **_: queued.append(key.name))
    selector = {"podSelector": {"matchLabels": {"app": "a"}}}
    entry = world.tenant_has("NetworkPolicy", "p", spec=selector)
    dependents.enqueue_pods_of_policy(world.session, None, entry, low=False)
    assert queued == ["a"]
    dependents.enqueue_pods_of_policy(world.session, entry, None, low=False)
    assert queued == ["a", "a"]


@pytest.mark.parametrize(
    "parts", [{"network": {"isolation": "Off"}}, {"sync": {"networkPolicies": "Refuse"}}]
)
def test_without_isolation_or_policies_pods_have_no_labels(parts):
    world = SessionWorld(policy(**parts))
    entry = world.tenant_has("NetworkPolicy", "p", spec=EVERY_POD)
    world.session.network_indexes.policy_selectors.set(None, entry)
    assert world.session.namespaces.build_policy_labels("web", {}) == {}
