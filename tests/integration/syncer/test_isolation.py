"""Default network policies, the labels that follow a tenant's policies, and own pods' addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubeio import Object
from syncer.model.keys import DEFAULT_POLICY
from tenancy import names
from tenancy.resources import ENDPOINT_SLICES, NETWORK_POLICIES, PODS
from tenancy.wellknown import POLICED_EGRESS, POLICED_INGRESS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_network import slice_of
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_service_types import set_policy
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

MARKS = (POLICED_INGRESS, POLICED_EGRESS)


def marks(twin: Object) -> set[str]:
    """Return the marks of a super pod."""
    return {key for key in MARKS if twin["metadata"]["labels"].get(key) == "true"}


def marked(*found: str) -> Callable[[Object], bool]:
    """Return whether a super pod has exactly these marks."""
    return lambda twin: marks(twin) == set(found)


async def test_each_super_namespace_has_the_default_policies_before_its_first_pod(
    synced: SyncerWorld,
):
    """SEC-40: no pod is ever open to everything."""
    since = synced.mark("super")
    space = await synced.namespace()
    await synced.tenant_client.create(PODS, pod("p"), namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "p"))
    super_space = synced.super_namespace(space)
    made = [
        (write.resource, write.name)
        for write in synced.writes("super", since)
        if write.namespace == super_space and write.verb == "create"
    ]
    first = [resource for resource, _ in made].index("pods")
    policies = {name for resource, name in made[:first] if resource == "networkpolicies"}
    assert policies == set(names.DEFAULT_POLICIES)


@pytest.mark.parametrize("name", names.DEFAULT_POLICIES)
async def test_a_default_policy_that_another_writer_changed_or_deleted_is_restored(
    synced: SyncerWorld, name: str
):
    space = await synced.namespace()
    right = (await eventually(lambda: synced.twin(NETWORK_POLICIES, space, name)))["spec"]
    super_space = synced.super_namespace(space)
    open_to_all: dict[str, Any] = {"ingress": [{}], "egress": [{}]}
    await synced.super_client.patch(
        NETWORK_POLICIES, name, {"spec": open_to_all}, namespace=super_space
    )
    await eventually(
        lambda: synced.twin(NETWORK_POLICIES, space, name),
        until=lambda twin: twin["spec"] == right,
    )
    await synced.super_client.delete(NETWORK_POLICIES, name, namespace=super_space)
    twin = await eventually(lambda: synced.twin(NETWORK_POLICIES, space, name))
    assert twin["spec"] == right


async def test_the_marks_follow_policies_and_labels(synced: SyncerWorld):
    """SEC-41: and a pod that is created later has its mark from the first moment."""
    space = await synced.namespace()
    await synced.tenant_client.create(PODS, pod("a"), namespace=space)
    await synced.tenant_client.create(PODS, pod("b"), namespace=space)
    for name in ("a", "b"):
        await eventually(lambda name=name: synced.twin(PODS, space, name), until=marked())
    selector = {"podSelector": {"matchLabels": {"app": "a"}}}
    body = {"metadata": {"name": "p"}, "spec": {**selector, "policyTypes": ["Ingress"]}}
    await synced.tenant_client.create(NETWORK_POLICIES, body, namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "a"), until=marked(POLICED_INGRESS))
    assert marks(await synced.twin(PODS, space, "b")) == set()
    # A pod that is created now has its mark from the first moment.
    own = pod("c")
    own["metadata"]["labels"] = {"app": "a"}
    await synced.tenant_client.create(PODS, own, namespace=space)
    created = await eventually(lambda: synced.twin(PODS, space, "c"))
    assert marks(created) == {POLICED_INGRESS}
    both = {"spec": {"policyTypes": ["Ingress", "Egress"]}}
    await synced.tenant_client.patch(NETWORK_POLICIES, "p", both, namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "a"), until=marked(*MARKS))
    relabelled = {"metadata": {"labels": {"app": "z"}}}
    await synced.tenant_client.patch(PODS, "a", relabelled, namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "a"), until=marked())
    removed = {"metadata": {"labels": {POLICED_EGRESS: None}}}
    super_space = synced.super_namespace(space)
    await synced.super_client.patch(PODS, "c", removed, namespace=super_space)
    await eventually(lambda: synced.twin(PODS, space, "c"), until=marked(*MARKS))
    await synced.tenant_client.delete(NETWORK_POLICIES, "p", namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "c"), until=marked())


async def test_with_isolation_off_the_policies_go(synced: SyncerWorld):
    space = await synced.namespace()
    for name in names.DEFAULT_POLICIES:
        await eventually(lambda name=name: synced.twin(NETWORK_POLICIES, space, name))
    set_policy(synced, network={"isolation": "Off"})
    for name in names.DEFAULT_POLICIES:
        synced.session.work.enqueue(synced.session.build_key(DEFAULT_POLICY, space, name))
    for name in names.DEFAULT_POLICIES:
        await gone(lambda name=name: synced.twin(NETWORK_POLICIES, space, name))
    await synced.tenant_client.create(PODS, pod("p"), namespace=space)
    await eventually(lambda: synced.twin(PODS, space, "p"))


async def test_a_policy_of_a_reserved_name_is_refused(synced: SyncerWorld):
    space = await synced.namespace()
    body = {"metadata": {"name": names.ISOLATION_POLICY}, "spec": {"podSelector": {}}}
    await synced.tenant_client.create(NETWORK_POLICIES, body, namespace=space)
    (event,) = await eventually(lambda: synced.events(space))
    assert "reserved-name" in event["message"]
    twin = await synced.twin(NETWORK_POLICIES, space, names.ISOLATION_POLICY)
    assert twin["spec"]["policyTypes"] == ["Ingress", "Egress"]


async def test_a_slice_names_own_pods_as_long_as_they_run(synced: SyncerWorld):
    """SEC-42: the super cluster has no ranges of pods, so each private address may be a pod's."""
    space, address = await synced.namespace(), "10.244.77.7"
    await synced.tenant_client.create(ENDPOINT_SLICES, slice_of(address), namespace=space)
    event = (await eventually(lambda: synced.events(space)))[0]
    assert "spec.network.endpoints" in event["message"]
    assert not await synced.has_twin(ENDPOINT_SLICES, space, "away")
    node = await synced.super_node()
    await synced.tenant_client.create(PODS, pod("p"), namespace=space)
    await synced.start_pod(space, "p", node)
    await synced.report(space, "p", podIP=address, podIPs=[{"ip": address}])
    await eventually(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
    await synced.report(space, "p", phase="Failed")
    await gone(lambda: synced.twin(ENDPOINT_SLICES, space, "away"))
