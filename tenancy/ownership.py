"""Ownership record of super objects, read from and written to their metadata. Pure.

Ownership consists of two UIDs: the VirtualCluster's and the tenant object's. Outside the home
cluster there is a third one, the SuperCluster's. A name only shows where to search.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tenancy import wellknown
from tenancy.resources import VIRTUAL_CLUSTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Identity of one tenant in all components."""

    name: str
    """Name of the VirtualCluster."""
    namespace: str
    """Namespace of the VirtualCluster."""
    uid: str
    """UID of the VirtualCluster."""
    root: str
    """Root namespace, the key."""
    super_cluster_uid: str = ""
    """UID of the SuperCluster of this view. Empty in the home cluster."""

    def owns(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether a super object belongs to this tenant."""
        owner = read_owner(metadata, self.super_cluster_uid)
        return owner is not None and owner.vc_uid == self.uid


class TwinOwner(NamedTuple):
    """The tenant object that a super object records as its twin."""

    vc_uid: str
    uid: str
    namespace: str


def read_owner(metadata: Mapping[str, Any], registration: str = "") -> TwinOwner | None:
    """Return the recorded owner of a super object, or None when the record is not complete.

    An object with the registration of another cluster than its own is also treated as foreign.
    """
    annotations = metadata.get("annotations") or {}
    vc_uid, uid = annotations.get(wellknown.VC_UID), annotations.get(wellknown.UID)
    if not vc_uid or not uid or annotations.get(wellknown.SUPER_CLUSTER, "") != registration:
        return None
    return TwinOwner(vc_uid, uid, annotations.get(wellknown.NAMESPACE, ""))


def build_owner_labels(tenant: Tenant, tenant_namespace: str) -> dict[str, str]:
    """Return the labels that name a tenant. An empty namespace means the root namespace."""
    found = {
        wellknown.CONTROLLED: "true",
        wellknown.CLUSTER: tenant.root,
        wellknown.VC_NAME: tenant.name,
        wellknown.VC_NAMESPACE: tenant.namespace,
        wellknown.VC_UID: tenant.uid,
        **_registration_labels(tenant),
    }
    return {**found, wellknown.NAMESPACE: tenant_namespace} if tenant_namespace else found


def build_owner_annotations(
    tenant: Tenant, tenant_namespace: str, tenant_uid: str
) -> dict[str, str]:
    """Return the ownership record of a super object."""
    return {
        wellknown.CLUSTER: tenant.root,
        wellknown.VC_NAME: tenant.name,
        wellknown.VC_NAMESPACE: tenant.namespace,
        wellknown.VC_UID: tenant.uid,
        wellknown.NAMESPACE: tenant_namespace,
        wellknown.UID: tenant_uid,
        **_registration_labels(tenant),
    }


def _registration_labels(tenant: Tenant) -> dict[str, str]:
    return {wellknown.SUPER_CLUSTER: tenant.super_cluster_uid} if tenant.super_cluster_uid else {}


def build_owner_reference(tenant: Tenant) -> dict[str, str]:
    """Return the owner reference of an object that is deleted with its VirtualCluster."""
    return {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "name": tenant.name,
        "uid": tenant.uid,
    }


def is_only_owner(metadata: Mapping[str, Any], tenant: Tenant) -> bool:
    """Return whether the VirtualCluster is the only owner in an object's owner references."""
    owners = metadata.get("ownerReferences") or ()
    return [each.get("uid") for each in owners] == [tenant.uid]
