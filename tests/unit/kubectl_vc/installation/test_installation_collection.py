"""Collection of the facts of `kubectl vc doctor`."""

from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.installation import doctor
from kubeio import errors
from tenancy.resources import NODES
from tests.support.kubectl_vc.installation_faults import SOUND, named
from tests.support.kubectl_vc.object_faults import virtual_cluster

ITEMS = {
    "CustomResourceDefinition": SOUND.custom_resource_definitions,
    "Deployment": SOUND.deployments,
    "DaemonSet": SOUND.daemon_sets,
    "Pod": SOUND.pods,
    "Node": SOUND.nodes,
    "StorageClass": SOUND.storage_classes,
    "ServiceCIDR": SOUND.service_cidrs,
    "ClusterVersion": SOUND.cluster_versions,
    "TenantPolicy": SOUND.tenant_policies,
    "SuperCluster": SOUND.super_clusters,
}


class StubClient:
    """Answers reads with a sound installation, and refuses some kinds."""

    def __init__(self, refused: str, renewed: datetime) -> None:
        self.refused = refused
        spec = {"holderIdentity": "a", "renewTime": renewed.isoformat()}
        self.leases = [named(name) | {"spec": spec} for name in ("vc-manager", "vc-syncer")]

    async def get(self, resource: Any, *_: Any, **__: Any) -> dict[str, Any]:
        if resource.kind == "VirtualCluster":
            return virtual_cluster()
        raise errors.NotFound("none", status=404, reason="NotFound")

    async def list(self, resource: Any, **_: Any) -> dict[str, Any]:
        if resource.kind == self.refused:
            raise errors.Forbidden("no", status=403, reason="Forbidden")
        if resource.kind == "Lease":
            return {"items": self.leases}
        return {"items": list(ITEMS.get(resource.kind) or ())}


async def check(name: str = "", refused: str = ""):
    """Return the checks of a sound installation by their names."""
    client: Any = StubClient(refused, datetime.now(UTC))
    connection = SuperConnection(client, "default", is_explicit=False)
    return {each.check: each for each in await doctor.check_links(connection, name, "vc-manager")}


async def test_each_fact_reaches_its_check():
    assert {each.state for each in (await check()).values()} == {"ok"}


async def test_tenant_follows_the_installation():
    found = await check("web")
    assert [*found][-1] == "ready"
    assert found["sync"].state == "ok"
    assert found["certificates"].state == "note"


async def test_refused_kind_is_unknown():
    found = await check(refused=NODES.kind)
    assert found["nodes"].state == "unknown"
    assert found["crds"].state == "ok"
