"""The root namespace of a tenant, and who may fetch the admin kubeconfig in it.

Hazard: a namespace of that name may belong to someone else. It is the tenant's only if its marks
name this VirtualCluster's UID. Any other namespace is never adopted and never deleted. Hazard: the
RoleBinding must name the one role that gets the Secret of the admin kubeconfig. A wider role would
open the private keys of the tenant's authorities.
"""

from kubeio import Object, errors
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, ROLE_BINDINGS
from tenancy.specs import VirtualClusterSpec
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import is_subset

KUBECONFIG_BINDING = "vc-kubeconfig-readers"
"""Name of the RoleBinding."""
_POD_SECURITY = "pod-security.kubernetes.io"


def build_namespace(tenant: Tenant, *, is_bundled: bool) -> Object:
    """Return the namespace. Bundles of a platform administrator may run as root."""
    level = "baseline" if is_bundled else "restricted"
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": tenant.root,
            "labels": {
                **ownership.build_owner_labels(tenant, ""),
                f"{_POD_SECURITY}/enforce": level,
                f"{_POD_SECURITY}/enforce-version": "latest",
            },
            "annotations": {
                wellknown.CLUSTER: tenant.root,
                wellknown.VC_NAME: tenant.name,
                wellknown.VC_NAMESPACE: tenant.namespace,
                wellknown.VC_UID: tenant.uid,
                wellknown.ROOT_NAMESPACE: "true",
            },
        },
    }


def build_role_bindings(spec: VirtualClusterSpec) -> list[Object]:
    """Return the RoleBinding for `spec.kubeconfigReaders`, or nothing for an empty list."""
    if not spec.kubeconfig_readers:
        return []
    group = ROLE_BINDINGS.group
    role = {"apiGroup": group, "kind": "ClusterRole", "name": wellknown.KUBECONFIG_READER_ROLE}
    subjects = [
        {"apiGroup": group, "kind": reader.kind, "name": reader.name}
        for reader in spec.kubeconfig_readers
    ]
    return [
        {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": {"name": KUBECONFIG_BINDING},
            "roleRef": role,
            "subjects": subjects,
        }
    ]


def is_own_namespace(namespace: Object, tenant: Tenant) -> bool:
    """Return whether a namespace is this tenant's root namespace."""
    annotations = namespace["metadata"].get("annotations") or {}
    return (
        annotations.get(wellknown.ROOT_NAMESPACE) == "true"
        and annotations.get(wellknown.VC_UID) == tenant.uid
    )


def build_credential_access(tenant: Tenant, namespace: str) -> Object:
    """Return the RoleBinding by which the syncer reads its kubeconfig of the tenant.

    `namespace` is that of the components.
    """
    role = {"apiGroup": ROLE_BINDINGS.group, "kind": "ClusterRole"}
    return {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {
            "name": wellknown.SYNCER,
            "namespace": tenant.root,
            "labels": ownership.build_owner_labels(tenant, ""),
            "annotations": ownership.build_owner_annotations(tenant, "", ""),
        },
        "roleRef": {**role, "name": wellknown.SYNCER_CREDENTIAL_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": wellknown.SYNCER, "namespace": namespace}],
    }


async def ensure_credential_access(
    means: ReconcileContext, tenant: Tenant, found: Object | None
) -> None:
    """Create or restore the RoleBinding of the syncer in the root namespace.

    `found` is the observed RoleBinding of that name.
    """
    wanted = build_credential_access(tenant, means.namespace)
    if not is_subset(wanted, found):
        await means.super_client.apply(ROLE_BINDINGS, wanted, field_manager=wellknown.MANAGER)


async def ensure_root_namespace(
    means: ReconcileContext, tenant: Tenant, found: Object | None, *, is_bundled: bool
) -> Object:
    """Create or update the namespace. Raises Held if the name is in use."""
    wanted = build_namespace(tenant, is_bundled=is_bundled)
    if found is None:
        try:
            return await means.super_client.create(
                NAMESPACES, wanted, field_manager=wellknown.MANAGER
            )
        except errors.AlreadyExists:
            found = await means.super_client.get(NAMESPACES, tenant.root)
    if not is_own_namespace(found, tenant):
        raise PhaseBlocked(
            "NameCollision",
            f"The namespace {tenant.root} exists and does not belong to this VirtualCluster, so"
            " vc-manager does not change it. Delete the namespace if it is not needed, or recreate"
            " the VirtualCluster.",
            needs_admin=True,
            retry_after=60.0,
        )
    if "deletionTimestamp" in found["metadata"]:
        raise PhaseBlocked(
            "NamespaceTerminating",
            f"The namespace {tenant.root} is being deleted. vc-manager creates it again"
            " afterwards.",
            retry_after=2.0,
        )
    if is_subset(wanted, found):
        return found
    return await means.super_client.apply(NAMESPACES, wanted, field_manager=wellknown.MANAGER)


async def mark_pki_initialised(means: ReconcileContext, namespace: Object) -> None:
    """Record that all authorities exist. From then on a missing one is lost, not new."""
    metadata = namespace["metadata"]
    if (metadata.get("annotations") or {}).get(wellknown.PKI_INITIALISED) == "true":
        return
    patch = {
        "metadata": {"uid": metadata["uid"], "annotations": {wellknown.PKI_INITIALISED: "true"}}
    }
    await means.super_client.patch(
        NAMESPACES, metadata["name"], patch, field_manager=f"{wellknown.MANAGER}-pki"
    )
