"""Typed views of the parts of a VirtualClusterSnapshot, and of schedules and restores.

Must not know how a snapshot is created.
"""

from typing import Annotated, Any, Literal

import msgspec

DEFAULT_CLAIM = "snapshots"
"""Claim in the root namespace that vc-manager creates if it is missing."""
DEFAULT_CREDENTIALS = "snapshots-s3"
DEFAULT_REGION = "us-east-1"
SnapshotPhase = Literal["Pending", "Running", "Complete", "Failed"]
RestorePhase = Literal["Checking", "Stopping", "Restoring", "Complete", "Failed"]


class ClaimStorage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A PersistentVolumeClaim in the root namespace of the tenant."""

    claim_name: str = DEFAULT_CLAIM


class S3Storage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bucket of a server with the API of Amazon S3."""

    endpoint: str
    """URL with https and without a path."""
    bucket: str
    prefix: str = ""
    """Prefix of the keys, empty or with a slash at its end."""
    region: str = DEFAULT_REGION
    credentials_secret_name: str = DEFAULT_CREDENTIALS
    """Secret in the root namespace with accessKeyID and secretAccessKey."""
    ca_secret_name: str = ""
    """Secret in the root namespace with ca.crt. Empty: the authorities of vc-manager's image."""


class SnapshotStorage(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Place of the files of a snapshot: a bucket if there is one, otherwise a claim."""

    persistent_volume_claim: ClaimStorage = ClaimStorage()
    s3: S3Storage | None = None


class SnapshotRetention(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Time for which a snapshot is kept."""

    keep_for: str = ""
    """Duration such as 168h, after the completion. Empty: until it is deleted."""


class SnapshotManifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Origin of a snapshot, and the checksums of its parts."""

    virtual_cluster_uid: str = msgspec.field(default="", name="virtualClusterUID")
    virtual_cluster_spec_sha256: str = msgspec.field(default="", name="virtualClusterSpecSHA256")
    cluster_version_name: str = ""
    kubernetes_version: str = ""
    etcd_version: str = ""
    sha256: str = ""
    """SHA-256 of the file."""
    size_bytes: int = 0
    revision: int = 0
    """Highest revision of etcd in the snapshot."""
    objects: int = 0
    secrets: dict[str, str] = {}
    """SHA-256 of the data of each Secret with a CA or with keys, by name."""


class ImportedSnapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A snapshot whose file exists already, and is uploaded to the claim."""

    manifest: SnapshotManifest


class SnapshotSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields of `VirtualClusterSnapshot.spec`."""

    virtual_cluster_name: str
    storage: SnapshotStorage = SnapshotStorage()
    retention: SnapshotRetention = SnapshotRetention()
    imported: ImportedSnapshot | None = None
    """None: vc-manager saves the tenant's etcd."""


class SnapshotComparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes by a restore, in numbers of objects by resource."""

    requested: str = ""
    removed: dict[str, int] = {}
    brought_back: dict[str, int] = {}
    reverted: dict[str, int] = {}
    removed_names: tuple[str, ...] = ()


class SnapshotStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields of `VirtualClusterSnapshot.status`."""

    phase: SnapshotPhase = "Pending"
    started_at: str = ""
    completed_at: str = ""
    manifest: SnapshotManifest | None = None
    comparison: SnapshotComparison | None = None
    observed_generation: int = 0
    conditions: tuple[dict[str, Any], ...] = ()


class SnapshotSchedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`VirtualCluster.spec.snapshotSchedule`: snapshots at an interval."""

    interval: str
    """Duration between two snapshots, such as 24h. At least 10 min."""
    keep: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 7
    """Number of complete snapshots of the schedule that are kept."""
    storage: SnapshotStorage = SnapshotStorage()


class RestoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`VirtualCluster.status.restore`: the last restore in place."""

    request: str = ""
    """Value of the annotation that requested it."""
    phase: RestorePhase = "Checking"
    reason: str = ""
    message: str = ""
