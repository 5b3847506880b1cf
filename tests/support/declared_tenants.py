"""Objects that vc-manager and the chart create for a syncer, created by hand.

Owns the CRDs, the syncer's rights, the admission policy, VirtualClusters and their Secrets. They
have our form and upstream's form, so that another syncer finds its own. Must not know loads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from kubeio import Object
from kubeio.api.client import Client
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SECRETS,
    VIRTUAL_CLUSTERS,
)
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.grants import grant_own_namespace, grant_syncer, grant_target_secrets, guard
from tools.testbed.artifacts import product

CRDS = product.REPOSITORY / "charts" / "virtual-cluster" / "files" / "crds"
HOME = "vc-manager"
SUPER_SYNCER = f"system:serviceaccount:vc-manager:{wellknown.SYNCER}"
UNUSED = (
    "apps/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "resource.k8s.io/v1",
)
"""API groups that a tenant's API server does not serve in a measurement."""


@dataclass(frozen=True, kw_only=True)
class TenantServer:
    """One tenant: its API server and its identity."""

    plane: LocalControlPlane
    tenant: Tenant

    def super_namespace(self, namespace: str) -> str:
        """Return the super namespace that our syncer uses for a tenant namespace."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, namespace)


async def install_crds(below: Client) -> None:
    """Create our kinds."""
    for path in sorted(CRDS.glob("*.yaml")):
        await below.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))


async def install(below: Client, user: str, *, gate: bool) -> None:
    """Install our kinds and the syncer's user in the super cluster."""
    await install_crds(below)
    await grant_syncer(below, user)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    await below.create(NAMESPACES, space)
    await grant_own_namespace(below, user, HOME)
    await grant_target_secrets(below, user, HOME)
    if gate:
        await guard(below, user)
    await eventually(lambda: below.list(VIRTUAL_CLUSTERS), within=30)


async def declare(
    below: Client, plane: LocalControlPlane, *, name: str, service_range: str
) -> TenantServer:
    """Create a VirtualCluster for this control plane, as vc-manager leaves it."""
    kubeconfigs = {
        "syncer": plane.kubeconfig("syncer", group=""),
        "admin": plane.kubeconfig("admin", group="system:masters"),
    }
    tenant = await enlist(below, kubeconfigs, name=name, service_range=service_range)
    return TenantServer(plane=plane, tenant=tenant)


async def enlist(
    below: Client, kubeconfigs: Mapping[str, bytes], *, name: str, service_range: str
) -> Tenant:
    """Create a VirtualCluster with kubeconfigs by user."""
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    }
    made = await below.create(VIRTUAL_CLUSTERS, body)
    uid = made["metadata"]["uid"]
    root = names.build_root_namespace("default", name, uid)
    tenant = Tenant(name=name, namespace="default", uid=uid, root=root)
    await below.patch(
        VIRTUAL_CLUSTERS,
        name,
        {"status": {"serviceCidr": service_range, "clusterNamespace": root, "phase": "Running"}},
        namespace="default",
        subresource="status",
    )
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": root, "labels": ownership.build_owner_labels(tenant, "")},
    }
    await below.create(NAMESPACES, space)
    for user, kubeconfig in kubeconfigs.items():
        await below.create(SECRETS, _secret(tenant, user, kubeconfig))
    return tenant


def _secret(tenant: Tenant, user: str, kubeconfig: bytes) -> Object:
    labels = ownership.build_owner_labels(tenant, "")
    if user == "syncer":
        labels[wellknown.CREDENTIAL] = wellknown.CREDENTIAL_SYNCER
    name = f"{user}-kubeconfig"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": tenant.root, "labels": labels},
        "stringData": {name: kubeconfig.decode()},
    }
