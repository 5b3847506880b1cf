"""Next step of the restore of a snapshot in place.

Pure. The steps are decided from what exists, so an interrupted restore goes on where it was.

Hazard: nothing may be stopped before the snapshot was checked, and the data of etcd may be replaced
only after etcd has stopped and the syncer has disconnected. A connected syncer would read the
restored etcd with the memory of the present one.

Hazard: once the Job that replaces the data exists, etcd may start only when it is known which data
it has. A Job that failed before its last container changed nothing. After any other failure the Job
runs again, because each of its steps can be repeated.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from tenancy import wellknown
from tenancy.snapshots.specs import RestorePhase
from tenancy.snapshots.view import Snapshot
from vcmanager.snapshots.jobs import START_SECONDS, JobResult


class RestoreStep(Enum):
    """Next step."""

    FAIL = auto()
    """Record the failure. The tenant continues with its present data."""
    CREATE_CHECK = auto()
    """Create the Job that checks the snapshot. The tenant runs."""
    WAIT = auto()
    STOP = auto()
    """Stop the control plane."""
    ANNOUNCE = auto()
    """Record that the data will be replaced. From then on the request cannot be withdrawn."""
    CREATE_RESTORE = auto()
    """Create the Job that replaces the data."""
    DELETE_JOB = auto()
    """Delete the Job that replaces the data, and wait until its pod is deleted."""
    FINISH = auto()
    """Hold deletes, let etcd start with one member, and record the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """All inputs of the decision."""

    snapshot: Snapshot | None
    """None: it does not exist."""
    tenant_uid: str
    running_minor: str
    """Kubernetes minor of the running control plane. Empty: unknown."""
    wanted_minor: str
    """Minor of the ClusterVersion of the tenant. Empty: it cannot be used.

    Hazard: it may be older than the running one, because a restore undoes an upgrade. Such a tenant
    starts only with the data of the snapshot.
    """
    etcd_version: str
    has_etcd: bool
    """Whether the tenant has an etcd of the short form."""
    has_claim: bool
    encryption_digest: str
    """Digest of the present encryption keys. Empty: none."""
    check: JobResult | None
    """None: the Job does not exist."""
    restore: JobResult | None
    is_connected: bool
    """Whether the syncer may still be connected to the tenant."""
    is_running: bool
    """Whether a component has replicas or pods."""
    job_age: float = 0.0
    """Age in seconds of the Job that replaces the data."""
    is_held: bool = False
    """Whether `spec.suspend` keeps the syncer disconnected. Only then a fork is possible."""
    is_announced: bool = False
    """Whether the status has the phase Restoring for this request."""
    last_reason: str = ""
    """Reason in the status, if it is announced."""


@dataclass(frozen=True, slots=True)
class RestoreDecision:
    """A step, with the phase, reason and message that the status reports."""

    step: RestoreStep
    phase: RestorePhase
    reason: str
    message: str


NOT_STARTED = "JobNotStarted"
RETRYING = "Retrying"
"""Reason after a failure in the middle. Until the end it is unknown which data etcd has."""


def decide_restore(facts: RestoreFacts) -> RestoreDecision:
    """Return the next step."""
    if facts.restore is not None:
        decision = _judge_restore(facts, facts.restore)
    elif facts.is_announced:
        decision = _start_job(facts)
    elif (refusal := find_refusal(facts)) is not None:
        decision = _fail(*refusal)
    else:
        decision = _judge_check(facts, facts.check)
    running, wanted = facts.running_minor, facts.wanted_minor
    if decision.step is RestoreStep.FAIL and running and wanted and running != wanted:
        advice = f" Set spec.clusterVersionName back to a ClusterVersion of {running}."
        return replace(decision, message=decision.message + advice)
    return decision


def _judge_check(facts: RestoreFacts, check: JobResult | None) -> RestoreDecision:
    if check is None:
        message = "The snapshot is being checked. The tenant runs."
        return RestoreDecision(RestoreStep.CREATE_CHECK, "Checking", "Checking", message)
    if not check.is_done:
        return _wait("Checking", check.message or "Waiting for the Job that checks the snapshot.")
    if check.is_failed:
        return _fail(check.reason, f"{check.message}. The tenant was not stopped.")
    return _stop_and_replace(facts)


def _judge_restore(facts: RestoreFacts, job: JobResult) -> RestoreDecision:
    if not job.is_done:
        if not job.has_started and facts.job_age > START_SECONDS:
            message = f"The pod of the Job did not start: {job.message or 'no reason is reported'}"
            return RestoreDecision(RestoreStep.DELETE_JOB, "Restoring", NOT_STARTED, message)
        message = job.message or "Waiting for the Job that restores."
        reason = RETRYING if facts.last_reason == RETRYING else "Restoring"
        return RestoreDecision(RestoreStep.WAIT, "Restoring", reason, message)
    if job.is_failed:
        if job.is_before_last and facts.last_reason != RETRYING:
            return _fail(job.reason, f"{job.message}. The tenant has its present data.")
        message = f"The Job is repeated, because it failed while it replaced data: {job.message}."
        return RestoreDecision(RestoreStep.DELETE_JOB, "Restoring", RETRYING, message)
    if is_fork(facts):
        message = "The tenant has the data of the snapshot. `kubectl vc confirm-start` starts it."
        return RestoreDecision(RestoreStep.FINISH, "Complete", "Restored", message)
    message = (
        "The snapshot is restored. Deletes in the super cluster wait for `kubectl vc"
        " confirm-deletes`."
    )
    return RestoreDecision(RestoreStep.FINISH, "Complete", "Restored", message)


def _start_job(facts: RestoreFacts) -> RestoreDecision:
    """Return the step of a request that is announced and has no Job."""
    if facts.last_reason == NOT_STARTED:
        message = "The pod of the Job did not start in time. The tenant has its present data."
        return _fail(NOT_STARTED, message)
    reason = RETRYING if facts.last_reason == RETRYING else "Restoring"
    if facts.is_running:  # started by another client meanwhile
        message = "Waiting for the pods of the control plane to end."
        return RestoreDecision(RestoreStep.STOP, "Restoring", reason, message)
    message = "The data of etcd is being replaced."
    return RestoreDecision(RestoreStep.CREATE_RESTORE, "Restoring", reason, message)


def _stop_and_replace(facts: RestoreFacts) -> RestoreDecision:
    if facts.is_connected:
        return _wait("Stopping", "Waiting for the syncer to disconnect from the tenant.")
    if facts.is_running:
        message = "Waiting for the pods of the control plane to end."
        return RestoreDecision(RestoreStep.STOP, "Stopping", "Stopping", message)
    message = "The data of etcd is being replaced."
    return RestoreDecision(RestoreStep.ANNOUNCE, "Restoring", "Restoring", message)


def find_refusal(facts: RestoreFacts) -> tuple[str, str] | None:
    """Return reason and message why a snapshot cannot be restored, or None."""
    snapshot = facts.snapshot
    if snapshot is None:
        return "SnapshotNotFound", "The VirtualClusterSnapshot does not exist."
    where = f"VirtualClusterSnapshot {snapshot.name}"
    manifest = snapshot.status.manifest
    if snapshot.deleting or snapshot.status.phase != "Complete" or manifest is None:
        return "SnapshotNotComplete", f"{where} is not complete. Choose another one."
    claim = snapshot.claim_name
    minor, running = get_minor(manifest.kubernetes_version), facts.running_minor
    etcd, present = _parse_version(manifest.etcd_version), _parse_version(facts.etcd_version)
    rows = (
        (
            is_fork(facts) and not (snapshot.spec.imported and facts.is_held),
            "OtherTenant",
            (
                f"{where} is of another VirtualCluster. Use `kubectl vc restore --as-new` to start"
                " a new one from it."
            ),
        ),
        (
            is_fork(facts) and bool(manifest.secrets.get(wellknown.ENCRYPTION_SECRET)),
            "EncryptedData",
            (
                f"{where} has encrypted Secrets, and their keys are of another VirtualCluster."
                " Restore it in place. Or save a snapshot after encryption was turned off and the"
                " Secrets were written again."
            ),
        ),
        (
            not facts.has_etcd,
            "NotSupported",
            "Only tenants of a ClusterVersion of the short form can be restored.",
        ),
        (
            not facts.has_claim,
            "ClaimMissing",
            f"The PersistentVolumeClaim {claim} of {where} does not exist.",
        ),
        (
            bool(minor and running) and minor not in (running, facts.wanted_minor),
            "OtherKubernetesMinor",
            (
                f"{where} is of Kubernetes {minor}, and the tenant runs {running}. Set"
                f" spec.clusterVersionName to a ClusterVersion of {minor} together with the"
                " request, as `kubectl vc restore` does."
            ),
        ),
        (
            bool(etcd and present) and etcd[:2] > present[:2],
            "OtherEtcdVersion",
            (
                f"{where} is of etcd {manifest.etcd_version}, which is newer than"
                f" {facts.etcd_version} of the tenant."
            ),
        ),
        (
            bool(manifest.secrets.get(wellknown.ENCRYPTION_SECRET)) and not facts.encryption_digest,
            "EncryptionKeysMissing",
            (
                f"{where} has encrypted Secrets, and the Secret {wellknown.ENCRYPTION_SECRET} with"
                " their keys does not exist."
            ),
        ),
    )
    return next(((reason, message) for applies, reason, message in rows if applies), None)


def is_fork(facts: RestoreFacts) -> bool:
    """Return whether the snapshot is of another tenant than the one that is restored."""
    manifest = facts.snapshot.status.manifest if facts.snapshot is not None else None
    return manifest is not None and manifest.virtual_cluster_uid != facts.tenant_uid


def _fail(reason: str, message: str) -> RestoreDecision:
    return RestoreDecision(RestoreStep.FAIL, "Failed", reason, message)


def _wait(phase: RestorePhase, message: str) -> RestoreDecision:
    return RestoreDecision(RestoreStep.WAIT, phase, phase, message)


def get_minor(version: str) -> str:
    """Return the minor of a version, such as 1.36 of v1.36.4."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def _parse_version(text: str) -> tuple[int, ...]:
    parts = text.removeprefix("v").partition("-")[0].split(".")
    return tuple(int(each) for each in parts if each.isdecimal())
