"""Objects that vc-manager and the chart create for a syncer, created by hand.

Owns the CRDs, the syncer's rights, the admission policy, VirtualClusters and their Secrets. They
have our form and upstream's form, so that another syncer finds its own. Must not know loads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from kubeio import Object
from kubeio.api.client import Client
from syncer.rbac import SUPER_RBAC_RULES
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.rbac import RbacRule
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SECRETS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.helm import render
from tools.testbed import product

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
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, kw_only=True)
class TenantServer:
    """One tenant: its API server and its identity."""

    plane: LocalControlPlane
    tenant: Tenant

    def super_namespace(self, namespace: str) -> str:
        """Return the super namespace that our syncer uses for a tenant namespace."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, namespace)


async def install(below: Client, user: str, *, gate: bool) -> None:
    """Install our kinds and the syncer's user in the super cluster."""
    for path in sorted(CRDS.glob("*.yaml")):
        await below.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
    await grant(below, SUPER_RBAC_RULES, user)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    await below.create(NAMESPACES, space)
    if gate:
        await _guard(below)
    await eventually(lambda: below.list(VIRTUAL_CLUSTERS), within=30)


async def _guard(below: Client) -> None:
    for body in render("--show-only", "templates/syncer-policy.yaml"):
        kind = body["kind"]
        plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
        resource = Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
        await below.create(resource, body)


async def grant(client: Client, rows: Sequence[RbacRule], user: str) -> None:
    """Grant a user exactly the rights of a table."""
    rules = [
        {
            "apiGroups": [row.group],
            "resources": list(row.resources),
            "verbs": list(row.verbs),
            **({"resourceNames": list(row.names)} if row.names else {}),
        }
        for row in rows
    ]
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "syncer"},
        "rules": rules,
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "syncer"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "syncer"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
    await client.create(CLUSTER_ROLES, role)
    await client.create(CLUSTER_ROLE_BINDINGS, binding)


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
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": root, "labels": ownership.build_owner_labels(tenant, "")},
    }
    await below.create(NAMESPACES, space)
    for user, kubeconfig in kubeconfigs.items():
        await below.create(SECRETS, _secret(tenant, user, kubeconfig))
    await below.patch(
        VIRTUAL_CLUSTERS,
        name,
        {"status": {"serviceCidr": service_range, "clusterNamespace": root, "phase": "Running"}},
        namespace="default",
        subresource="status",
    )
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
