"""Claims and volumes of either side, and a look at a tenant that may have them."""

from __future__ import annotations

import ipaddress
from typing import Any

import orjson

from kubeio.cache.store import Entry, Store, parse_entry
from syncer.model.tenant_view import TenantView
from syncer.rules.storage import volumes
from tenancy import ownership
from tenancy.ownership import Tenant
from tenancy.policies import ClassFilter, StorageSpec, SyncSpec, TenantPolicySpec, TenantVolumes
from tenancy.specs import VirtualClusterSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
BELOW = f"{TENANT.root}-web"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
NFS = {"server": "nfs.example", "path": "/a"}
OFFERED = TenantVolumes(nfs_servers=("nfs.example",), csi_drivers=("csi.example",))
POLICY = TenantPolicySpec(
    storage=StorageSpec(tenant_volumes=OFFERED, volume_attributes_classes=("fast",)),
    sync=SyncSpec(storage_classes=ClassFilter(names=("gold",))),
)


def entry(kind: str, name: str, namespace: str = "", **fields: Any) -> Entry:
    """Return a cached object."""
    metadata = {
        "name": name,
        "uid": f"{name}-uid",
        "resourceVersion": "5",
        **({"namespace": namespace} if namespace else {}),
        **fields.pop("metadata", {}),
    }
    return parse_entry(orjson.dumps({"kind": kind, "metadata": metadata, **fields}))


def view(policy: TenantPolicySpec = POLICY, default: str = "gold") -> TenantView:
    """Return a look at a tenant whose super cluster has the classes gold and hidden."""
    classes = Store()
    for name in ("gold", "hidden"):
        mark = {"annotations": {DEFAULT: "true"}} if name == default else {}
        classes.put(entry("StorageClass", name, metadata=mark), live=True)
    below = {"StorageClass": classes, "PersistentVolumeClaim": Store(), "PersistentVolume": Store()}
    return TenantView(
        tenant=TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v"),
        service_range=ipaddress.ip_network("10.96.8.0/22"),
        stores={
            "PersistentVolumeClaim": Store(),
            "PersistentVolume": Store({volumes.BY_CLAIM_INDEX: volumes.index_by_claim}),
        },
        policy=policy,
        super_stores=below,
    )


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a claim as the tenant's API hands it out."""
    return {
        "metadata": {"name": "c", "namespace": "web", "uid": "u", **(metadata or {})},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def twin_below(seen: TenantView, **fields: Any) -> Entry:
    """Have a claim's twin below."""
    record = {
        "labels": ownership.build_owner_labels(TENANT, "web"),
        "annotations": ownership.build_owner_annotations(TENANT, "web", "u"),
    }
    found = entry("PersistentVolumeClaim", "c", BELOW, metadata=record, **fields)
    seen.super_stores["PersistentVolumeClaim"].put(found, live=True)
    return found


def super_volume(name: str, claim_name: str, namespace: str = BELOW, **fields: Any) -> Entry:
    """Return a super volume that is kept for a claim."""
    reference = {"namespace": namespace, "name": claim_name, "uid": f"{claim_name}-uid"}
    spec = {"claimRef": reference, **fields.pop("spec", {})}
    return entry("PersistentVolume", name, spec=spec, **fields)


def own(name: str = "mine", **spec: Any) -> dict[str, Any]:
    """Return a volume that a tenant wrote."""
    return {
        "metadata": {"name": name, "uid": f"{name}-uid"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "manual",
            **({} if {"nfs", "csi", "hostPath"} & set(spec) else {"nfs": NFS}),
            **spec,
        },
        "status": {},
    }
