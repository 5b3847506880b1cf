"""Typed view of a VirtualClusterSnapshot, and the request to restore one. Pure.

A restore is requested by an annotation of the VirtualCluster: the name of the snapshot, and the
time of the request (docs/adr/0037).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tenancy import conditions, deletion, wellknown
from tenancy.snapshots.specs import (
    DEFAULT_CLAIM,
    SnapshotSpec,
    SnapshotStatus,
    SnapshotStorage,
)

COMPLETE = "Complete"
"""Condition of a VirtualClusterSnapshot, and the phase in which it is True."""
VOLUME_FULL = "VolumeFull"
"""Reason of the condition of a snapshot that had no room."""
_CLAIM_NAME = re.compile(r"snapshots(-[a-z0-9-]{0,40}[a-z0-9])?")
_S3_FIELDS = {
    "endpoint": re.compile(r"https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?"),
    "bucket": re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "prefix": re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]{0,62}/){0,8}"),
    "region": re.compile(r"[a-z0-9-]{1,32}"),
    "credentials_secret_name": _CLAIM_NAME,
    "ca_secret_name": re.compile(rf"({_CLAIM_NAME.pattern})?"),
}
"""Allowed values. Names of Secrets have the prefix of claims, so that no key of the tenant fits."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class InvalidSnapshotError(ValueError):
    """A VirtualClusterSnapshot cannot be read. The message names the object and the field."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A VirtualClusterSnapshot with its identity."""

    namespace: str
    name: str
    uid: str
    generation: int
    created: str
    labels: dict[str, str]
    annotations: dict[str, str]
    deleting: bool
    spec: SnapshotSpec
    status: SnapshotStatus

    @property
    def file_name(self) -> str:
        """Return the name of the file in the volume, and of its key in a bucket."""
        return f"{self.uid}.db"

    @property
    def claim_name(self) -> str:
        """Return the name of the claim with the file. Empty: it is in a bucket."""
        storage = self.spec.storage
        return "" if storage.s3 is not None else storage.persistent_volume_claim.claim_name


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A request to restore a snapshot in place."""

    text: str
    """Value of the annotation. Another value is another request."""
    snapshot: str
    """Name of the snapshot, in the namespace of the VirtualCluster."""

    @property
    def job_name(self) -> str:
        """Return the name of the Job that restores."""
        return f"restore-{hashlib.sha256(self.text.encode()).hexdigest()[:10]}"


def parse_snapshot(body: Mapping[str, Any]) -> Snapshot:
    """Return the typed view of a VirtualClusterSnapshot. Raises InvalidSnapshotError."""
    metadata = body["metadata"]
    where = f"VirtualClusterSnapshot {metadata['namespace']}/{metadata['name']}"
    try:
        spec = msgspec.convert(body.get("spec") or {}, SnapshotSpec)
        status = msgspec.convert(body.get("status") or {}, SnapshotStatus)
    except msgspec.ValidationError as problem:
        raise InvalidSnapshotError(f"{where}: {problem}") from problem
    claim = spec.storage.persistent_volume_claim.claim_name
    if not _CLAIM_NAME.fullmatch(claim):
        raise InvalidSnapshotError(
            f"{where}: the claim {claim!r} in spec.storage is not allowed. Use {DEFAULT_CLAIM}, or"
            f" a name that begins with {DEFAULT_CLAIM}-"
        )
    s3 = spec.storage.s3
    for field, allowed in _S3_FIELDS.items() if s3 is not None else ():
        if not allowed.fullmatch(getattr(s3, field)):
            raise InvalidSnapshotError(
                f"{where}: {field} {getattr(s3, field)!r} in spec.storage.s3 is not allowed"
            )
    if spec.imported is not None and (
        s3 is not None or not _SHA256.fullmatch(spec.imported.manifest.sha256)
    ):
        raise InvalidSnapshotError(
            f"{where}: spec.imported needs the SHA-256 of the file, and a claim in spec.storage"
        )
    return Snapshot(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        deleting="deletionTimestamp" in metadata,
        spec=spec,
        status=status,
    )


def format_restore_request(snapshot: str, moment: datetime) -> str:
    """Return the value of the annotation."""
    return f"{snapshot}@{conditions.format_time(moment)}"


def parse_restore_request(annotations: Mapping[str, str]) -> RestoreRequest | None:
    """Return the request. None without one, and for a value that names no snapshot."""
    text = annotations.get(wellknown.RESTORE_SNAPSHOT, "")
    name, separator, _ = text.partition("@")
    if not separator or not _OBJECT_NAME.fullmatch(name):
        return None
    return RestoreRequest(text=text, snapshot=name)


def compute_expiry(snapshot: Snapshot) -> datetime | None:
    """Return the time at which the retention of a complete snapshot ends, or None."""
    kept = deletion.parse_grace_period(snapshot.spec.retention.keep_for)
    if kept <= timedelta(0) or not snapshot.status.completed_at:
        return None
    try:
        return datetime.fromisoformat(snapshot.status.completed_at) + kept
    except ValueError:
        return None


def choose_surplus(snapshots: list[Snapshot], keep: int) -> list[Snapshot]:
    """Return the snapshots of a schedule that exceed the number to keep, oldest first.

    Failed snapshots are no reason to delete a complete one. They are deleted when as many newer
    ones exist.
    """
    newest = sorted(snapshots, key=get_age_order, reverse=True)
    complete = [each for each in newest if each.status.phase == "Complete"]
    failed = [each for each in newest if each.status.phase == "Failed"]
    return [*reversed(failed[keep:]), *reversed(complete[keep:])]


def choose_room(snapshots: list[Snapshot], storage: SnapshotStorage) -> Snapshot | None:
    """Return the snapshot of a schedule to delete before the next one is saved, or None.

    While a complete snapshot is older than a failure with a full volume, their number does not
    grow. The last complete one stays in any case. A bucket is never full.
    """
    if storage.s3 is not None:
        return None
    claim = storage.persistent_volume_claim.claim_name
    here = sorted((each for each in snapshots if each.claim_name == claim), key=get_age_order)
    complete = [each for each in here if each.status.phase == "Complete"]
    fullest = max((each.created for each in here if is_volume_full(each)), default="")
    return complete[0] if len(complete) > 1 and complete[0].created < fullest else None


def is_volume_full(snapshot: Snapshot) -> bool:
    """Return whether a snapshot failed because its volume is full."""
    found = conditions.find_condition(snapshot.status.conditions, COMPLETE) or {}
    return snapshot.status.phase == "Failed" and found.get("reason") == VOLUME_FULL


def get_age_order(snapshot: Snapshot) -> tuple[str, str]:
    """Return the key that sorts snapshots by age, oldest first."""
    return snapshot.created, snapshot.name
