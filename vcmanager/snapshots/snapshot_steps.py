"""Next step of a VirtualClusterSnapshot: save, compare, expire.

Pure. Must not know how a Job is built. Hazard: a complete snapshot must never be saved again. Its
checksum would then be of another file.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tenancy import conditions, wellknown
from tenancy.conditions import Condition, ConditionStatus
from tenancy.snapshots import view
from tenancy.snapshots.specs import SnapshotComparison, SnapshotManifest, SnapshotPhase
from tenancy.snapshots.view import Snapshot
from vcmanager.snapshots.jobs import JobResult

COMPLETE = view.COMPLETE
WAITING_FOR_FILE = "WaitingForFile"
_STATUS_BY_PHASE: Mapping[SnapshotPhase, ConditionStatus] = {"Complete": "True", "Failed": "False"}
"""Status of Complete. Unknown in the other phases."""
_SUMMARY_BY_PHASE: Mapping[SnapshotPhase, str] = {
    "Pending": wellknown.RECONCILING,
    "Running": wellknown.RECONCILING,
    "Failed": wellknown.STALLED,
}
"""Condition for kstatus, which does not know Complete."""
StepAction = Literal["none", "create_claim", "create_job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFacts:
    """All inputs of the decision about a snapshot that is not saved yet."""

    has_cluster: bool
    is_supported: bool
    """Whether the ClusterVersion is of the short form, and vc-manager knows its own image."""
    is_asleep: bool
    is_etcd_ready: bool
    has_claim: bool
    """Whether the claim exists, or none is needed."""
    may_create_claim: bool
    is_uploaded: bool = True
    """Whether the file of an imported snapshot is on the claim."""
    is_making_room: bool = False
    """Whether another snapshot on the same claim is being deleted."""
    job: JobResult | None


@dataclass(frozen=True, slots=True)
class SaveDecision:
    """Phase, reason and message of a snapshot, and what to create."""

    phase: SnapshotPhase
    reason: str
    message: str
    action: StepAction = "none"


def build_conditions(decision: SaveDecision, *, now: str, generation: int) -> list[Condition]:
    """Return the conditions of a snapshot: Complete, and Reconciling or Stalled."""
    rows: list[tuple[str, ConditionStatus]] = [
        (COMPLETE, _STATUS_BY_PHASE.get(decision.phase, "Unknown"))
    ]
    summary = _SUMMARY_BY_PHASE.get(decision.phase)
    if summary is not None:
        rows.append((summary, "True"))
    return [
        conditions.build_condition(
            *row, decision.reason, decision.message, now=now, generation=generation
        )
        for row in rows
    ]


def decide_save(facts: SaveFacts, snapshot: Snapshot) -> SaveDecision:
    """Return the next step of a snapshot that is neither complete nor failed."""
    if facts.job is not None and facts.job.is_done:
        return _judge_result(facts.job)
    tenant = snapshot.spec.virtual_cluster_name
    claim, is_imported = snapshot.claim_name, snapshot.spec.imported is not None
    running = (facts.job.message if facts.job is not None else "") or "The snapshot is being saved."
    rows = (
        (
            not facts.has_cluster,
            SaveDecision(
                "Failed",
                "VirtualClusterNotFound",
                f"VirtualCluster {tenant} does not exist in this namespace.",
            ),
        ),
        (
            not facts.is_supported,
            SaveDecision(
                "Failed",
                "NotSupported",
                "Snapshots need a ClusterVersion of the short form, and the image of vc-manager"
                " (--own-image).",
            ),
        ),
        (facts.job is not None, SaveDecision("Running", "Running", running)),
        (
            facts.is_asleep and not is_imported,
            SaveDecision(
                "Pending",
                wellknown.ASLEEP,
                f"VirtualCluster {tenant} is asleep. The snapshot is saved when it wakes.",
            ),
        ),
        (
            not facts.is_etcd_ready and not is_imported,
            SaveDecision(
                "Pending",
                "EtcdNotReady",
                f"Waiting for the etcd of VirtualCluster {tenant}. It is not ready, or stopped.",
            ),
        ),
        (
            not facts.has_claim and not facts.may_create_claim,
            SaveDecision(
                "Pending",
                "ClaimMissing",
                f"The PersistentVolumeClaim {claim} does not exist in the root namespace. Your"
                " platform administrator must create it.",
            ),
        ),
        (
            not facts.has_claim,
            SaveDecision(
                "Pending",
                "CreatingClaim",
                f"The PersistentVolumeClaim {claim} is being created.",
                "create_claim",
            ),
        ),
        (
            is_imported and not facts.is_uploaded,
            SaveDecision(
                "Pending",
                WAITING_FOR_FILE,
                "Waiting for the file. `kubectl vc snapshot import` uploads it.",
            ),
        ),
        (
            facts.is_making_room,
            SaveDecision(
                "Pending",
                "MakingRoom",
                f"Waiting until the files of a deleted snapshot are removed from {claim}.",
            ),
        ),
    )
    otherwise = SaveDecision("Running", "Running", running, "create_job")
    return next((decision for applies, decision in rows if applies), otherwise)


def is_uploaded(snapshot: Snapshot) -> bool:
    """Return whether the file of an imported snapshot was uploaded with the announced SHA-256."""
    imported = snapshot.spec.imported
    uploaded = snapshot.annotations.get(wellknown.UPLOADED_SNAPSHOT)
    return imported is None or uploaded == imported.manifest.sha256


def _judge_result(job: JobResult) -> SaveDecision:
    if job.is_failed:
        return SaveDecision("Failed", job.reason, f"The snapshot failed: {job.message}.")
    if not (job.output or {}).get("sha256"):
        message = "The Job ended without a result. Create another snapshot."
        return SaveDecision("Failed", "ResultMissing", message)
    return SaveDecision("Complete", "Saved", "The snapshot is saved, and its checksum matches.")


def build_manifest(
    cluster: Mapping[str, Any],
    secrets: Mapping[str, Mapping[str, Any]],
    *,
    kubernetes_version: str,
    etcd_version: str,
) -> dict[str, Any]:
    """Return the part of the manifest that is known before the snapshot is saved.

    `secrets` are the Secrets of the root namespace with CAs and keys, by name.
    """
    return {
        "virtualClusterUID": cluster["metadata"]["uid"],
        "virtualClusterSpecSHA256": compute_sha256(cluster.get("spec") or {}),
        "clusterVersionName": str((cluster.get("spec") or {}).get("clusterVersionName", "")),
        "kubernetesVersion": kubernetes_version,
        "etcdVersion": etcd_version,
        "secrets": {name: compute_sha256(each.get("data")) for name, each in secrets.items()},
    }


def merge_manifest(known: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole manifest. Unknown fields of the measured part are dropped."""
    names = set(SnapshotManifest.__struct_encode_fields__)
    return {key: value for key, value in {**known, **measured}.items() if key in names}


def build_comparison(request: str, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a comparison."""
    names = set(SnapshotComparison.__struct_encode_fields__)
    found = {key: value for key, value in output.items() if key in names}
    return {**found, "requested": request}


def get_comparison_request(snapshot: Snapshot) -> str:
    """Return the request that is not answered yet, or an empty text."""
    request = snapshot.annotations.get(wellknown.COMPARE_SNAPSHOT, "")
    done = snapshot.status.comparison.requested if snapshot.status.comparison else ""
    return request if request != done else ""


def is_expired(snapshot: Snapshot, now: datetime) -> bool:
    """Return whether the retention of a complete snapshot has ended."""
    expiry = view.compute_expiry(snapshot)
    return expiry is not None and expiry <= now


def compute_sha256(value: Any) -> str:
    """Return the SHA-256 of a JSON value in its canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
