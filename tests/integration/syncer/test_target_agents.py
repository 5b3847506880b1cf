"""The node that stands for a target leads to the target's agent, which runs in the home cluster."""

from __future__ import annotations

from tenancy import wellknown
from tenancy.resources import NODES, PODS, SUPER_CLUSTERS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import TargetWorld
from tests.integration.syncer.test_assigned_clusters import (  # noqa: F401 - fixtures
    own_plane,
    second,
    target_world,
    tenant,
)
from tests.integration.syncer.world import HOME
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address


async def make_agent(target_world: TargetWorld, name: str, address: str) -> None:  # noqa: F811
    """Have a pod as vc-manager's Deployment makes it, ready."""
    super_client = target_world.world.super_client
    registered = await super_client.get(SUPER_CLUSTERS, target_world.name)
    body = pod(name)
    body["metadata"]["labels"] = {
        "app.kubernetes.io/name": wellknown.TARGET_AGENT,
        wellknown.SUPER_CLUSTER: registered["metadata"]["uid"],
        wellknown.TARGET: target_world.name,
    }
    body["spec"]["serviceAccountName"] = "default"
    await eventually(lambda: super_client.create(PODS, body, namespace=HOME))
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await super_client.patch(PODS, name, {"status": status}, namespace=HOME, subresource="status")


async def test_the_node_of_a_target_leads_to_its_agent(target_world: TargetWorld):  # noqa: F811
    """A2-03: to the newest that is ready. Without one it has no address."""
    await target_world.granted()

    async def addresses() -> list[tuple[str, str]]:
        node = await target_world.world.tenant_client.get(NODES, target_world.node)
        return [(a["type"], a["address"]) for a in node["status"].get("addresses") or ()]

    assert await addresses() == []
    one, two = f"one-{target_world.name}", f"two-{target_world.name}"
    await make_agent(target_world, one, "10.73.1.1")
    await eventually(
        addresses, until=lambda found: found == [(wellknown.AGENT_ADDRESS, "10.73.1.1")]
    )
    node = await target_world.world.tenant_client.get(NODES, target_world.node)
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == wellknown.AGENT_PORT
    await make_agent(target_world, two, "10.73.1.2")
    super_client = target_world.world.super_client
    await super_client.delete(PODS, one, namespace=HOME, grace_seconds=0)
    await eventually(
        addresses, until=lambda found: found == [(wellknown.AGENT_ADDRESS, "10.73.1.2")]
    )
    await super_client.delete(PODS, two, namespace=HOME, grace_seconds=0)
    await eventually(addresses, until=lambda found: found == [])
