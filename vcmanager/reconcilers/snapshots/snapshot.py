"""Reconcile of a VirtualClusterSnapshot: a Job saves it, and the status has its manifest.

Owns the status of a snapshot. Hazard: the finalizer stays until the files are deleted, or until
their volume was deleted with the tenant.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from telemetry import metrics
from tenancy import conditions, wellknown
from tenancy.names import InvalidNameError
from tenancy.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    SECRETS,
    STATEFUL_SETS,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)
from tenancy.snapshots import view
from tenancy.snapshots.specs import DEFAULT_CLAIM
from tenancy.snapshots.view import Snapshot
from tenancy.specs import InvalidSpecError, VirtualCluster, parse_virtual_cluster
from vcmanager.phases.etcd import member_config
from vcmanager.pki import inventory
from vcmanager.plan import control_plane, versions
from vcmanager.reconcilers import finalizers
from vcmanager.reconcilers.snapshots import job_runs
from vcmanager.reconcilers.snapshots.snapshot_list import list_snapshots
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.snapshots import jobs, s3_client, snapshot_steps
from vcmanager.snapshots.jobs import JobContext
from vcmanager.snapshots.snapshot_steps import COMPLETE, SaveDecision, SaveFacts

_RUNNING_SECONDS = 2.0
_PENDING_SECONDS = 15.0
_ENDED = frozenset({"Complete", "Failed"})
_MANIFEST_VARIABLE = "SNAPSHOT_MANIFEST"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_snapshot(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Reconcile one VirtualClusterSnapshot."""
    try:
        body = await means.super_client.get(
            VIRTUAL_CLUSTER_SNAPSHOTS, key.name, namespace=key.namespace
        )
    except errors.NotFound:
        return Done()
    try:
        snapshot = view.parse_snapshot(body)
    except view.InvalidSnapshotError as problem:
        if "deletionTimestamp" in body["metadata"]:
            await finalizers.remove_finalizer(means, VIRTUAL_CLUSTER_SNAPSHOTS, body)
            return Done()
        await _write_status(means, body, SaveDecision("Failed", "InvalidSpec", str(problem)), {})
        return Done()
    cluster_body = await _fetch_cluster(means, snapshot)
    cluster = _parse_cluster(cluster_body)
    if snapshot.deleting:
        return await _delete_files(means, body, snapshot, cluster)
    if snapshot.status.phase in _ENDED:
        return await _reconcile_ended(means, body, snapshot, cluster)
    await finalizers.add_finalizer(means, VIRTUAL_CLUSTER_SNAPSHOTS, body)
    return await _save(means, body, snapshot, cluster_body)


async def _save(
    means: ReconcileContext, body: Object, snapshot: Snapshot, cluster_body: Object | None
) -> Result:
    """Create the Job that saves the snapshot, or read its result."""
    cluster = _parse_cluster(cluster_body)
    name = _build_job_name("snapshot", snapshot)
    root = cluster.tenant.root if cluster is not None else ""
    etcd = await _fetch_etcd(means, root)
    job, result = await job_runs.fetch_job(means, root, name) if root else (None, None)
    claim = snapshot.claim_name
    facts = SaveFacts(
        has_cluster=cluster is not None and not cluster.deleting,
        is_supported=bool(means.settings.own_image) and (etcd is None or _is_short_form(etcd)),
        is_asleep=cluster is not None and cluster.spec.sleep is not None,
        is_etcd_ready=etcd is not None and (etcd.get("status") or {}).get("readyReplicas", 0) > 0,
        has_claim=await _has_claim(means, root, claim),
        may_create_claim=claim == DEFAULT_CLAIM,
        is_uploaded=snapshot_steps.is_uploaded(snapshot),
        is_making_room=result is None and await _is_making_room(means, snapshot),
        job=result,
    )
    decision = snapshot_steps.decide_save(facts, snapshot)
    if cluster is not None and cluster_body is not None and etcd is not None:
        context = job_runs.build_context(means, cluster.tenant, etcd)
        if decision.action == "create_claim":
            await means.super_client.create(
                PERSISTENT_VOLUME_CLAIMS,
                jobs.build_claim(context, claim),
                field_manager=wellknown.MANAGER,
            )
        elif decision.action == "create_job":
            job_body = await _build_save_job(means, context, snapshot, cluster_body, name=name)
            await job_runs.create_job(means, job_body)
    measured = (result.output or {}) if result is not None else {}
    manifest = snapshot_steps.merge_manifest(_read_manifest(job), measured)
    await _write_status(
        means, body, decision, {"manifest": manifest} if decision.phase == COMPLETE else {}
    )
    if decision.phase in _ENDED:
        metrics.count_snapshot("success" if decision.phase == COMPLETE else "error")
        _log.info("snapshot.ended", snapshot=snapshot.name, reason=decision.reason)
        await job_runs.delete_jobs(means, root, (name,) if root else ())
        means.recorder.record(
            body,
            decision.reason,
            decision.message,
            kind="Normal" if decision.phase == COMPLETE else "Warning",
        )
    if decision.action == "create_claim":
        return RequeueAfter(0.0)
    if facts.is_making_room:
        return RequeueAfter(_RUNNING_SECONDS)
    return RequeueAfter(_PENDING_SECONDS if decision.phase == "Pending" else _RUNNING_SECONDS)


async def _build_save_job(
    means: ReconcileContext,
    context: JobContext,
    snapshot: Snapshot,
    cluster_body: Object,
    *,
    name: str,
) -> Object:
    """Return the Job that saves a snapshot, or that records an uploaded one."""
    imported = snapshot.spec.imported
    if imported is not None:
        known: Object = msgspec.to_builtins(imported.manifest)
        return jobs.build_record_job(context, snapshot, known, name=name)
    manifest = snapshot_steps.build_manifest(
        cluster_body,
        await _fetch_secrets(means, context.tenant.root),
        kubernetes_version=str((cluster_body.get("status") or {}).get("version") or ""),
        etcd_version=versions.get_image_tag(context.etcd),
    )
    return jobs.build_save_job(context, snapshot, manifest, name=name)


async def _reconcile_ended(
    means: ReconcileContext, body: Object, snapshot: Snapshot, cluster: VirtualCluster | None
) -> Result:
    """Delete an expired snapshot, or answer a request to compare it with its tenant."""
    now = means.now()
    if snapshot_steps.is_expired(snapshot, now):
        await means.super_client.delete(
            VIRTUAL_CLUSTER_SNAPSHOTS,
            snapshot.name,
            namespace=snapshot.namespace,
            uid=snapshot.uid,
        )
        return Done()
    request = snapshot_steps.get_comparison_request(snapshot)
    if request and snapshot.status.phase == COMPLETE:
        return await _compare(means, body, snapshot, cluster, request)
    expiry = view.compute_expiry(snapshot)
    if expiry is None:
        return Done()
    return RequeueAfter(min(RESYNC_SECONDS, max(1.0, (expiry - now).total_seconds())))


async def _compare(
    means: ReconcileContext,
    body: Object,
    snapshot: Snapshot,
    cluster: VirtualCluster | None,
    request: str,
) -> Result:
    """Run the Job that compares, and record its result. A failure is an empty comparison."""
    name = _build_job_name("compare", snapshot)
    etcd = await _fetch_etcd(means, cluster.tenant.root if cluster is not None else "")
    manifest = snapshot.status.manifest
    is_own = cluster is not None and manifest is not None
    if cluster is None or etcd is None or not is_own:
        output: Mapping[str, Any] = {}
    else:
        root = cluster.tenant.root
        _, result = await job_runs.fetch_job(means, root, name)
        if result is None:
            context = job_runs.build_context(means, cluster.tenant, etcd)
            await job_runs.create_job(means, jobs.build_compare_job(context, snapshot, name=name))
            return RequeueAfter(_RUNNING_SECONDS)
        if not result.is_done:
            return RequeueAfter(_RUNNING_SECONDS)
        await job_runs.delete_jobs(means, root, (name,))
        if result.is_failed:
            means.recorder.record(body, result.reason, result.message, kind="Warning")
        output = result.output or {}
    comparison = snapshot_steps.build_comparison(request, output)
    await _apply_status(means, body, {**(body.get("status") or {}), "comparison": comparison})
    return Done()


async def _delete_files(
    means: ReconcileContext, body: Object, snapshot: Snapshot, cluster: VirtualCluster | None
) -> Result:
    """Delete the files by a Job, and release the object when they are deleted."""
    root = cluster.tenant.root if cluster is not None else ""
    etcd = await _fetch_etcd(means, root)
    manifest = snapshot.status.manifest
    is_movable = snapshot.spec.imported is not None or snapshot.spec.storage.s3 is not None
    is_here = cluster is not None and (
        manifest is None or is_movable or manifest.virtual_cluster_uid == cluster.tenant.uid
    )
    claim = snapshot.claim_name
    has_files = (
        is_here
        and (snapshot.status.phase != "Pending" or is_movable)
        and not (cluster is not None and cluster.deleting)
        and await _has_claim(means, root, claim)
    )
    if cluster is not None and _is_being_restored(cluster, snapshot):
        return RequeueAfter(_PENDING_SECONDS)
    if cluster is not None and etcd is not None and has_files:
        name = _build_job_name("delete", snapshot)
        await job_runs.delete_jobs(means, root, (_build_job_name("snapshot", snapshot),))
        _, result = await job_runs.fetch_job(means, root, name)
        if result is None:
            context = job_runs.build_context(means, cluster.tenant, etcd)
            await job_runs.create_job(means, jobs.build_delete_job(context, snapshot, name=name))
            return RequeueAfter(_RUNNING_SECONDS)
        if not result.is_done:
            return RequeueAfter(_RUNNING_SECONDS)
        await job_runs.delete_jobs(means, root, (name,))
        if result.is_failed:
            message = f"The files of the snapshot cannot be deleted: {result.message}."
            means.recorder.record(body, result.reason, message, kind="Warning")
            if result.reason != s3_client.ENDPOINT_NOT_ALLOWED:  # only an administrator can end it
                return RequeueAfter(_PENDING_SECONDS)
    await finalizers.remove_finalizer(means, VIRTUAL_CLUSTER_SNAPSHOTS, body)
    return Done()


def _is_being_restored(cluster: VirtualCluster, snapshot: Snapshot) -> bool:
    """Return whether a restore that cannot be withdrawn needs the files."""
    restore = cluster.status.restore
    if restore is None or restore.phase not in ("Stopping", "Restoring"):
        return False
    request = view.parse_restore_request({wellknown.RESTORE_SNAPSHOT: restore.request})
    return request is not None and request.snapshot == snapshot.name and not cluster.deleting


async def _fetch_cluster(means: ReconcileContext, snapshot: Snapshot) -> Object | None:
    try:
        return await means.super_client.get(
            VIRTUAL_CLUSTERS, snapshot.spec.virtual_cluster_name, namespace=snapshot.namespace
        )
    except errors.NotFound:
        return None


def _parse_cluster(body: Object | None) -> VirtualCluster | None:
    try:
        return parse_virtual_cluster(body) if body is not None else None
    except (InvalidNameError, InvalidSpecError):
        return None


async def _fetch_etcd(means: ReconcileContext, root: str) -> Object | None:
    if not root:
        return None
    try:
        return await means.super_client.get(STATEFUL_SETS, control_plane.ETCD, namespace=root)
    except errors.NotFound:
        return None


async def _fetch_secrets(means: ReconcileContext, root: str) -> dict[str, Object]:
    """Return the Secrets with CAs and keys that exist, by name."""
    names = {
        *inventory.AUTHORITIES.values(),
        inventory.SERVICE_ACCOUNT_KEYS,
        wellknown.ENCRYPTION_SECRET,
    }
    page = await means.super_client.list(SECRETS, namespace=root)
    return {
        each["metadata"]["name"]: each
        for each in page.get("items") or ()
        if each["metadata"]["name"] in names
    }


async def _has_claim(means: ReconcileContext, root: str, name: str) -> bool:
    """Return whether a claim exists, or none is named.

    Claims are listed, because vc-manager may not get them.
    """
    if not root or not name:
        return bool(root)
    page = await means.super_client.list(
        PERSISTENT_VOLUME_CLAIMS, namespace=root, field_selector=f"metadata.name={name}"
    )
    return bool(page.get("items"))


async def _is_making_room(means: ReconcileContext, snapshot: Snapshot) -> bool:
    """Return whether another snapshot of the tenant on the same claim is being deleted."""
    if not snapshot.claim_name:
        return False
    return any(
        each.deleting
        and each.spec.virtual_cluster_name == snapshot.spec.virtual_cluster_name
        and each.claim_name == snapshot.claim_name
        for each in await list_snapshots(means, snapshot.namespace)
    )


def _is_short_form(etcd: Object) -> bool:
    """Return whether etcd reads its members from the ConfigMap of the short form."""
    container = etcd["spec"]["template"]["spec"]["containers"][0]
    return any(
        ((each.get("valueFrom") or {}).get("configMapKeyRef") or {}).get("name")
        == member_config.CONFIG_MAP
        for each in container.get("env") or ()
    )


def _build_job_name(purpose: str, snapshot: Snapshot) -> str:
    return f"{purpose}-{snapshot.uid}"


def _read_manifest(job: Object | None) -> dict[str, Any]:
    """Return the part of the manifest that the Job was created with."""
    if job is None:
        return {}
    for container in job["spec"]["template"]["spec"]["containers"]:
        for each in container.get("env") or ():
            if each.get("name") == _MANIFEST_VARIABLE:
                found = json.loads(each.get("value") or "{}")
                return found if isinstance(found, dict) else {}
    return {}


async def _write_status(
    means: ReconcileContext, body: Object, decision: SaveDecision, more: Mapping[str, Any]
) -> None:
    """Write phase, conditions and times."""
    old = body.get("status") or {}
    now = conditions.format_time(means.now())
    generation = body["metadata"].get("generation", 0)
    made = snapshot_steps.build_conditions(decision, now=now, generation=generation)
    listed = conditions.carry_transition_times(old.get("conditions"), made)
    started = old.get("startedAt") or (now if decision.phase != "Pending" else "")
    document: dict[str, Any] = {
        "phase": decision.phase,
        "observedGeneration": generation,
        "conditions": listed,
        **more,
    }
    if started:
        document["startedAt"] = started
    if decision.phase in _ENDED:
        document["completedAt"] = now
    if all(old.get(key) == value for key, value in document.items()):
        return
    await _apply_status(means, body, document)


async def _apply_status(means: ReconcileContext, body: Object, document: Mapping[str, Any]) -> None:
    metadata = body["metadata"]
    await means.super_client.apply(
        VIRTUAL_CLUSTER_SNAPSHOTS,
        {
            "apiVersion": VIRTUAL_CLUSTER_SNAPSHOTS.api_version,
            "kind": VIRTUAL_CLUSTER_SNAPSHOTS.kind,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "status": dict(document),
        },
        subresource="status",
        field_manager=wellknown.MANAGER,
    )
