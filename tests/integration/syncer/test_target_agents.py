"""The node that stands for a target leads to the target's agent, which runs in the home cluster."""

from __future__ import annotations

from tenancy import wellknown
from tenancy.resources import NODES, PODS, SUPER_CLUSTERS
from tests.integration.syncer.far import TargetWorld
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_seats import (  # noqa: F401 - fixtures
    far,
    own_plane,
    second,
    tenant,
)
from tests.integration.syncer.world import HOME
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address


async def make_agent(far: TargetWorld, name: str, address: str) -> None:  # noqa: F811
    """Have a pod as vc-manager's Deployment makes it, ready."""
    super_client = far.world.super_client
    registered = await super_client.get(SUPER_CLUSTERS, far.name)
    body = pod(name)
    body["metadata"]["labels"] = {
        "app.kubernetes.io/name": wellknown.TARGET_AGENT,
        wellknown.SUPER_CLUSTER: registered["metadata"]["uid"],
        wellknown.TARGET: far.name,
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


async def test_the_node_of_a_target_leads_to_its_agent(far: TargetWorld):  # noqa: F811
    """A2-03: to the newest that is ready; without one it has no address."""
    await far.granted()

    async def addresses() -> list[tuple[str, str]]:
        node = await far.world.tenant_client.get(NODES, far.node)
        return [(a["type"], a["address"]) for a in node["status"].get("addresses") or ()]

    assert await addresses() == []
    one, two = f"one-{far.name}", f"two-{far.name}"
    await make_agent(far, one, "10.73.1.1")
    await eventually(
        addresses, until=lambda found: found == [(wellknown.AGENT_ADDRESS, "10.73.1.1")]
    )
    node = await far.world.tenant_client.get(NODES, far.node)
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == wellknown.AGENT_PORT
    await make_agent(far, two, "10.73.1.2")
    super_client = far.world.super_client
    await super_client.delete(PODS, one, namespace=HOME, grace_seconds=0)
    await eventually(
        addresses, until=lambda found: found == [(wellknown.AGENT_ADDRESS, "10.73.1.2")]
    )
    await super_client.delete(PODS, two, namespace=HOME, grace_seconds=0)
    await eventually(addresses, until=lambda found: found == [])
