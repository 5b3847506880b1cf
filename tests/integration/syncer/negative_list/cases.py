"""The vocabulary of the negative list: a case, the policies it is tried under, and short ways.

A case names the row of the policy that it proves, the rule and the place that the tenant has to be
told, an object, and the same object as it would do. In a body `@namespace` and `@name` stand for
the tenant namespace and the object's own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubeio import Object
from tenancy.policies import (
    AccessSpec,
    ClassFilter,
    ImagesSpec,
    NetworkSpec,
    NodesSpec,
    SecuritySpec,
    StorageSpec,
    SyncSpec,
    TenantPolicySpec,
    TenantVolumes,
)
from tenancy.resources import Resource
from tests.integration.syncer.negative_list.leaves import CSI_DRIVER, NFS_SERVER, Fragment, merged

OFFERED = TenantPolicySpec(
    nodes=NodesSpec(expose="all"),
    storage=StorageSpec(
        tenant_volumes=TenantVolumes(nfs_servers=(NFS_SERVER,), csi_drivers=(CSI_DRIVER,))
    ),
    sync=SyncSpec(runtime_classes=ClassFilter(names=("offered",))),
)
"""The policy `baseline`, with something offered wherever a neighbour needs it."""
TIGHT = TenantPolicySpec(
    security=SecuritySpec(level="restricted"),
    sync=SyncSpec(ingresses="Refuse", network_policies="Refuse", pod_disruption_budgets="Refuse"),
    nodes=NodesSpec(view="Minimal"),
    network=NetworkSpec(service_types=("ClusterIP",)),
    daemon_sets="Refuse",
    access=AccessSpec(ephemeral_containers=False),
    images=ImagesSpec(registries=("registry.example",)),
)
"""What a super administrator may close besides."""

NODE = "negative-node"
HIDDEN = "node-role.kubernetes.io/worker"
CLASS = "offered"
"""Name of the storage, ingress and runtime class that the tenant is shown."""
OWN_CLASS = "of-the-tenant"
OWN_RANGE = "10.200.0.0/24"
"""Service addresses that the tenant gave itself."""
LONG = "x" * 253
IMAGE = "registry.example/app:1"


@dataclass(frozen=True, kw_only=True)
class RefusedCase:
    """One refused object and its neighbour."""

    row: str
    rule: str
    path: str
    """Where the tenant is told to look: how the problem begins."""
    resource: Resource
    bad: Object
    good: Object
    leaf: str = ""
    """The leaf of a verdict table that it proves, as the table spells it."""
    tight: bool = False
    """Refused under the policy TIGHT only."""
    good_tight: bool = False
    """The neighbour is let down under that policy, too."""
    tenant_api_refuses: bool = False
    """The tenant's API server refuses it by itself."""
    ephemeral: bool = False
    """It is an ephemeral container of a pod that runs."""
    needs: tuple[tuple[Resource, Object], ...] = ()
    """What the refused object cannot do without."""
    mounted: str = ""
    """The volume by which a pod refers to it, without which it does not take part."""
    status: Object | None = None
    """What the tenant's own controller says, without which it does not take part."""
    tried: bool = False
    """It is the super cluster that refuses it, so it is asked."""
    name: str = ""
    """The name of the refused object, where it matters."""

    number: int = 0
    """Its place in the list."""

    def __str__(self) -> str:
        """Return the name of the test."""
        return f"{self.number} {self.row} - {self.rule} at {self.path}"


def pod(spec: Fragment = {}, container: Fragment = {}, **metadata: Any) -> Object:  # noqa: B006
    """Return a tenant's pod."""
    whole = merged({"containers": [{"name": "main", "image": IMAGE, **container}]}, spec)
    return {"metadata": {"name": "@name", **metadata}, "spec": whole}


def of_spec(spec: Fragment, **metadata: Any) -> Object:
    """Return an object of any other kind."""
    return {"metadata": {"name": "@name", **metadata}, "spec": dict(spec)}
