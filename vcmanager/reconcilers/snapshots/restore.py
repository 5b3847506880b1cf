"""Restore of a snapshot in place: the tenant is stopped, its etcd replaced, and started again.

The request is an annotation of the VirtualCluster. The syncer disconnects while it is set
(`syncer.lifecycle.tenant_manager`). The result is in `status.restore`, and the annotation is
removed by the reconcile after that (docs/adr/0037).

A snapshot of another minor needs a ClusterVersion of that minor, which a user sets together with
the request. vc-manager writes no spec: a user needs the right to use a ClusterVersion.

Hazard: deletes must be held before the syncer connects again. The record of the store in the root
namespace is therefore raised beyond every epoch that the snapshot may have, while the annotation is
still set.
"""

from typing import Any

from kubeio import Object, errors
from kubeio.resource_version import parse_revision
from tenancy import conditions, wellknown
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)
from tenancy.snapshots import view
from tenancy.snapshots.specs import RestoreStatus
from tenancy.snapshots.view import RestoreRequest, Snapshot
from tenancy.specs import InvalidSpecError, VirtualCluster, parse_cluster_version
from vcmanager.phases.etcd import member_config
from vcmanager.plan import control_plane, versions
from vcmanager.reconcilers.lifetime.control_plane_stop import (
    has_running_component,
    is_syncer_running,
    stop_in_order,
)
from vcmanager.reconcilers.snapshots import job_runs
from vcmanager.runtime import keys, object_metadata
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus
from vcmanager.snapshots import jobs, restore_steps
from vcmanager.snapshots.restore_steps import RestoreFacts, RestoreStep

EPOCH_STEP = 1000
"""Number by which the recorded epoch is raised. The record may be one behind the tenant's epoch."""
_RETRY_SECONDS = 2.0
_CHECK_SUFFIX = "-check"
_ENDED = frozenset({"Complete", "Failed"})
_RUNNING_PHASES = frozenset({"Checking", "Failed"})
"""Phases in which the rest of the reconcile goes on. After a failure it starts what was stopped."""


async def hold_restore(
    means: ReconcileContext,
    cluster: VirtualCluster,
    body: Object,
    observed: ObservedObjects,
    status: ReconcileStatus,
) -> None:
    """Return if no restore is requested, or while the tenant runs with its present data.

    Raises PhaseBlocked while the tenant is stopped.
    """
    old = cluster.status.restore or RestoreStatus()
    request = get_active_request(cluster)
    if request is None:
        return
    root = cluster.tenant.root
    if old.request == request.text and old.phase in _ENDED:
        await job_runs.delete_jobs(
            means, root, (request.job_name, f"{request.job_name}{_CHECK_SUFFIX}")
        )
        await _remove_request(means, body)
        return
    snapshot = await _fetch_snapshot(means, cluster, request)
    facts = await _collect_facts(means, cluster, observed, request, snapshot)
    decision = restore_steps.decide_restore(facts)
    await _carry_out(means, cluster, observed, facts, request=request, step=decision.step)
    if decision.step is RestoreStep.FINISH:
        # The data are of this version now. Otherwise its API server would be a refused downgrade.
        manifest = snapshot.status.manifest if snapshot is not None else None
        status.version = manifest.kubernetes_version if manifest is not None else ""
    status.restore = {
        "request": request.text,
        "phase": decision.phase,
        "reason": decision.reason,
        "message": decision.message,
    }
    if decision.step is RestoreStep.FAIL:
        means.recorder.record(body, decision.reason, decision.message, kind="Warning")
    if decision.phase in _RUNNING_PHASES:
        key = keys.build_virtual_cluster_key(cluster.tenant.namespace, cluster.tenant.name)
        means.enqueue_after(key, _RETRY_SECONDS)
        return
    raise PhaseBlocked(wellknown.RESTORING, decision.message, retry_after=_RETRY_SECONDS)


def get_active_request(cluster: VirtualCluster) -> RestoreRequest | None:
    """Return the request to work on.

    Hazard: from the phase Restoring on it is the one in the status, even if the annotation was
    removed or changed. Otherwise etcd would start while a Job replaces its data.
    """
    old = cluster.status.restore
    if old is not None and old.phase == "Restoring":
        return view.parse_restore_request({wellknown.RESTORE_SNAPSHOT: old.request})
    return view.parse_restore_request(cluster.annotations)


async def _carry_out(
    means: ReconcileContext,
    cluster: VirtualCluster,
    observed: ObservedObjects,
    facts: RestoreFacts,
    *,
    request: RestoreRequest,
    step: RestoreStep,
) -> None:
    etcd, snapshot = observed.get("StatefulSet", control_plane.ETCD), facts.snapshot
    if step in (RestoreStep.STOP, RestoreStep.ANNOUNCE, RestoreStep.CREATE_RESTORE):
        # A stopped etcd is no alert, and its last report names members that no longer exist.
        means.stores.remove(cluster.tenant.uid)
        await means.tenant_clients.drop(cluster.tenant.uid)
    if step is RestoreStep.STOP:
        await stop_in_order(means, observed)
    elif step is RestoreStep.DELETE_JOB:
        # The Job stays until its pod is deleted.
        await job_runs.delete_jobs(
            means, cluster.tenant.root, (request.job_name,), propagation="Foreground"
        )
    elif step is RestoreStep.FINISH:
        await raise_epoch(means, cluster, is_fork=restore_steps.is_fork(facts))
        await _reset_members(means, cluster, observed)
    elif etcd is not None and snapshot is not None:
        context = job_runs.build_context(means, cluster.tenant, etcd)
        fork_range = cluster.status.service_cidr if restore_steps.is_fork(facts) else ""
        if step is RestoreStep.CREATE_CHECK:
            name = f"{request.job_name}{_CHECK_SUFFIX}"
            job = jobs.build_check_job(context, snapshot, name=name, fork_range=fork_range)
            await job_runs.create_job(means, job)
        elif step is RestoreStep.CREATE_RESTORE:
            job = jobs.build_restore_job(
                context, snapshot, name=request.job_name, fork_range=fork_range
            )
            await job_runs.create_job(means, job)


async def _collect_facts(
    means: ReconcileContext,
    cluster: VirtualCluster,
    observed: ObservedObjects,
    request: RestoreRequest,
    snapshot: Snapshot | None,
) -> RestoreFacts:
    root = cluster.tenant.root
    _, check = await job_runs.fetch_job(means, root, f"{request.job_name}{_CHECK_SUFFIX}")
    job, restore = await job_runs.fetch_job(means, root, request.job_name)
    old = cluster.status.restore
    is_announced = old is not None and (old.request, old.phase) == (request.text, "Restoring")
    etcd = observed.get("StatefulSet", control_plane.ETCD)
    claim = snapshot.claim_name if snapshot else ""
    encryption = observed.get("Secret", wellknown.ENCRYPTION_SECRET)
    return RestoreFacts(
        snapshot=snapshot,
        tenant_uid=cluster.tenant.uid,
        running_minor=restore_steps.get_minor(cluster.status.version),
        wanted_minor=await _fetch_minor(means, cluster.spec.cluster_version_name),
        etcd_version=versions.get_image_tag(etcd) if etcd is not None else "",
        has_etcd=etcd is not None
        and observed.get("ConfigMap", member_config.CONFIG_MAP) is not None,
        has_claim=not claim or observed.get("PersistentVolumeClaim", claim) is not None,
        encryption_digest=object_metadata.compute_digest(encryption.get("data"))
        if encryption is not None
        else "",
        check=check,
        restore=restore,
        is_connected=await _is_connected(means, cluster, request),
        is_running=has_running_component(observed),
        job_age=job_runs.compute_age(job, means.now()),
        is_held=cluster.spec.suspend,
        is_announced=is_announced,
        last_reason=old.reason if old is not None and is_announced else "",
    )


def is_disconnected(cluster: VirtualCluster, request: RestoreRequest) -> bool:
    """Return whether the syncer reports that it is not connected because of this request.

    The syncer writes condition and field together. The field has the request, because the condition
    alone may be that of an earlier restore.
    """
    synced = conditions.find_condition(cluster.status.conditions, wellknown.SYNCED) or {}
    return (
        synced.get("status") == "False"
        and synced.get("reason") == wellknown.RESTORING
        and cluster.status.disconnected_for_restore == request.text
    )


async def _is_connected(
    means: ReconcileContext, cluster: VirtualCluster, request: RestoreRequest
) -> bool:
    return not is_disconnected(cluster, request) and await is_syncer_running(means)


async def _fetch_snapshot(
    means: ReconcileContext, cluster: VirtualCluster, request: RestoreRequest
) -> Snapshot | None:
    try:
        body = await means.super_client.get(
            VIRTUAL_CLUSTER_SNAPSHOTS, request.snapshot, namespace=cluster.tenant.namespace
        )
        return view.parse_snapshot(body)
    except (errors.NotFound, view.InvalidSnapshotError):
        return None


async def _fetch_minor(means: ReconcileContext, name: str) -> str:
    """Return the Kubernetes minor of a ClusterVersion. Empty if vc-manager cannot use it."""
    try:
        body = await means.super_client.get(CLUSTER_VERSIONS, name)
        return versions.resolve_release(name, parse_cluster_version(body)).minor
    except (errors.NotFound, InvalidSpecError):
        return ""


async def raise_epoch(means: ReconcileContext, cluster: VirtualCluster, *, is_fork: bool) -> None:
    """Raise the record of the store, so that the syncer finds an older copy and holds deletes.

    A new tenant that was never synced has no record, and no copies to protect.
    """
    found = await means.super_client.get(NAMESPACES, cluster.tenant.root, metadata_only=True)
    metadata = found["metadata"]
    if is_fork and not (metadata.get("annotations") or {}).get(wellknown.STORE_UID):
        return
    known = parse_revision((metadata.get("annotations") or {}).get(wellknown.STORE_EPOCH, ""))
    await means.super_client.patch(
        NAMESPACES,
        cluster.tenant.root,
        {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {wellknown.STORE_EPOCH: str(known + EPOCH_STEP)},
            }
        },
        field_manager=wellknown.MANAGER,
    )


async def _reset_members(
    means: ReconcileContext, cluster: VirtualCluster, observed: ObservedObjects
) -> None:
    """Let etcd start with its first member only, and delete the volumes of the other members.

    Hazard: two old members together would be a quorum, and would serve the data from before. The
    members are added again when etcd answers (docs/adr/0039).
    """
    root = cluster.tenant.root
    await means.super_client.patch(
        CONFIG_MAPS,
        member_config.CONFIG_MAP,
        {"data": member_config.build_single_patch()},
        namespace=root,
        field_manager=wellknown.MANAGER,
    )
    for ordinal in range(1, control_plane.MAX_REPLICAS):
        claim: dict[str, Any] | None = observed.get("PersistentVolumeClaim", f"data-etcd-{ordinal}")
        if claim is None:
            continue
        try:
            await means.super_client.delete(
                PERSISTENT_VOLUME_CLAIMS,
                claim["metadata"]["name"],
                namespace=root,
                uid=claim["metadata"]["uid"],
            )
        except errors.NotFound:
            continue


async def _remove_request(means: ReconcileContext, body: Object) -> None:
    """Remove the annotation in the version that was read, so that a newer request stays.

    A stale version raises Conflict, and the next reconcile reads the newer request.
    """
    metadata = body["metadata"]
    await means.super_client.patch(
        VIRTUAL_CLUSTERS,
        metadata["name"],
        {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {wellknown.RESTORE_SNAPSHOT: None},
            }
        },
        namespace=metadata["namespace"],
        field_manager=wellknown.MANAGER,
    )
