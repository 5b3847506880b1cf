"""Reconcile keys: a kind and a name.

Pure. One queue has all kinds, so that one process has one order of work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tenancy import wellknown
from tenancy.resources import VIRTUAL_CLUSTER_CONTROL_PLANES

ReconcileKind = Literal[
    "VirtualCluster",
    "ClusterVersion",
    "Rollout",
    "CertificateSigningRequest",
    "AgentTrust",
    "AgentAccess",
    "SyncerAccess",
    "NodeAddress",
    "SuperCluster",
    "Departure",
    "Store",
    "Snapshot",
    "SnapshotSchedule",
    "SyncEvents",
    "TenantContent",
    "ClusterProfile",
    "ControlPlane",
    "SyncRules",
]


@dataclass(frozen=True, slots=True)
class ReconcileKey:
    """One object to reconcile."""

    kind: ReconcileKind
    namespace: str
    name: str

    def build_log_fields(self) -> dict[str, str]:
        """Return the log fields of the object."""
        found = {"kind": self.kind, "name": self.name}
        return {**found, "namespace": self.namespace} if self.namespace else found

    @property
    def group(self) -> str:
        """Return the queue group: one for each tenant, and one for each other kind."""
        if self.kind in ("VirtualCluster", "TenantContent"):
            return f"{self.namespace}/{self.name}"
        return self.kind


AGENT_TRUST_KEY = ReconcileKey("AgentTrust", "", "vn-agent")
"""Trust of the agents. It exists before any tenant, because the agents wait for it."""

AGENT_ACCESS_KEY = ReconcileKey("AgentAccess", "", "vn-agent")
"""API calls that the policies permit to tenants, for the agents."""

SYNCER_ACCESS_KEY = ReconcileKey("SyncerAccess", "", wellknown.SYNCER)
"""Facts that limit the syncer's account: levels of tenants, and Secrets of targets."""


SYNC_RULES_KEY = ReconcileKey("SyncRules", "", "sync-rules")
"""All SyncRules, because the rights for them are in one ClusterRole."""


def build_virtual_cluster_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of a VirtualCluster."""
    return ReconcileKey("VirtualCluster", namespace, name)


def build_rollout_key(cluster_version: str) -> ReconcileKey:
    """Return the key of the rollout to the tenants of a ClusterVersion."""
    return ReconcileKey("Rollout", "", cluster_version)


def build_deleted_tenant_key(namespace: str, uid: str) -> ReconcileKey:
    """Return the key of a deleted VirtualCluster. A new one may have its name by now."""
    return ReconcileKey("Departure", namespace, uid)


def build_store_key(namespace: str, uid: str) -> ReconcileKey:
    """Return the key of the etcd of a VirtualCluster."""
    return ReconcileKey("Store", namespace, uid)


def build_snapshot_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of a VirtualClusterSnapshot."""
    return ReconcileKey("Snapshot", namespace, name)


def build_schedule_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of the snapshot schedule of a VirtualCluster."""
    return ReconcileKey("SnapshotSchedule", namespace, name)


def build_sync_events_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of the Events about the syncer's conditions of a VirtualCluster."""
    return ReconcileKey("SyncEvents", namespace, name)


def build_content_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of the shared objects and manifests in the tenant of a VirtualCluster."""
    return ReconcileKey("TenantContent", namespace, name)


def build_profile_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of the ClusterProfile of a VirtualCluster."""
    return ReconcileKey("ClusterProfile", namespace, name)


def build_control_plane_key(namespace: str, name: str) -> ReconcileKey:
    """Return the key of a VirtualClusterControlPlane."""
    return ReconcileKey("ControlPlane", namespace, name)


def get_control_plane_key(metadata: Mapping[str, Any]) -> ReconcileKey | None:
    """Return the key of the VirtualClusterControlPlane that owns a VirtualCluster, or None."""
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller") and each["kind"] == VIRTUAL_CLUSTER_CONTROL_PLANES.kind:
            return build_control_plane_key(metadata["namespace"], each["name"])
    return None


def build_key_of_listed(found: Mapping[str, Any]) -> ReconcileKey:
    """Return the key of a VirtualCluster from a list."""
    metadata = found["metadata"]
    return build_virtual_cluster_key(metadata["namespace"], metadata["name"])


AGENT_TRUST_LABELS = {wellknown.CONTROLLED: "true", wellknown.COMPONENT: wellknown.AGENT}
"""Labels of the objects that the agents trust and read, so that their changes are watched."""


def build_node_address_key(address: str) -> ReconcileKey:
    """Return the key of an address that no node has any longer."""
    return ReconcileKey("NodeAddress", "", address)


def get_owner_key(metadata: Mapping[str, Any]) -> ReconcileKey | None:
    """Return the key that reconciles an object: its VirtualCluster, target or agent key."""
    labels = metadata.get("labels") or {}
    if labels.get(wellknown.COMPONENT) == wellknown.TARGET_AGENT:
        target = labels.get(wellknown.TARGET)
        return ReconcileKey("SuperCluster", "", target) if target else None
    if labels.get(wellknown.COMPONENT) == wellknown.AGENT and wellknown.VC_NAME not in labels:
        return (
            AGENT_ACCESS_KEY if metadata.get("name") == wellknown.AGENT_ACCESS else AGENT_TRUST_KEY
        )
    namespace, name = labels.get(wellknown.VC_NAMESPACE), labels.get(wellknown.VC_NAME)
    return build_virtual_cluster_key(namespace, name) if namespace and name else None
