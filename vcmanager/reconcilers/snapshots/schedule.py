"""Snapshots of a schedule: created when they are due, and deleted when there are more than enough.

Hazard: only snapshots with the label of the schedule are deleted. A snapshot that a person created
is never one of them.
"""

import contextlib

import msgspec

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import wellknown
from tenancy.names import InvalidNameError
from tenancy.resources import VIRTUAL_CLUSTER_SNAPSHOTS, VIRTUAL_CLUSTERS
from tenancy.snapshots import view
from tenancy.specs import InvalidSpecError, VirtualCluster, parse_virtual_cluster
from vcmanager.reconcilers.snapshots.snapshot_list import list_snapshots
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.snapshots import schedules

_MIN_SECONDS = 30.0


async def reconcile_schedule(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Create and delete the snapshots of one VirtualCluster's schedule."""
    identity = f"{key.namespace}/{key.name}"
    cluster = await _fetch_cluster(means, key)
    schedule = cluster.spec.snapshot_schedule if cluster is not None else None
    if cluster is None or schedule is None or cluster.deleting:
        means.snapshot_schedules.remove(identity)
        return Done()
    existing = await list_snapshots(
        means, key.namespace, f"{wellknown.SNAPSHOT_SCHEDULE}={key.name}"
    )
    plan = schedules.plan_schedule(
        schedule,
        existing,
        cluster_name=key.name,
        cluster_created=cluster.created,
        now=means.now(),
    )
    is_restoring = view.parse_restore_request(cluster.annotations) is not None
    is_asleep = cluster.spec.sleep is not None
    may_save = bool(plan.create) and not is_restoring and not is_asleep
    for each in (*plan.surplus, *((plan.room,) if may_save and plan.room else ())):
        with contextlib.suppress(errors.NotFound):
            await means.super_client.delete(
                VIRTUAL_CLUSTER_SNAPSHOTS, each.name, namespace=key.namespace, uid=each.uid
            )
    if may_save:
        body = {
            "apiVersion": VIRTUAL_CLUSTER_SNAPSHOTS.api_version,
            "kind": VIRTUAL_CLUSTER_SNAPSHOTS.kind,
            "metadata": {
                "name": plan.create,
                "namespace": key.namespace,
                "labels": {wellknown.SNAPSHOT_SCHEDULE: key.name},
            },
            "spec": {
                "virtualClusterName": key.name,
                "storage": msgspec.to_builtins(schedule.storage),
            },
        }
        with contextlib.suppress(errors.AlreadyExists):
            await means.super_client.create(
                VIRTUAL_CLUSTER_SNAPSHOTS, body, field_manager=wellknown.MANAGER
            )
    means.snapshot_schedules.set(identity, is_overdue=plan.is_overdue and not is_asleep)
    return RequeueAfter(min(RESYNC_SECONDS, max(_MIN_SECONDS, plan.next_seconds)))


async def _fetch_cluster(means: ReconcileContext, key: ReconcileKey) -> VirtualCluster | None:
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
        return parse_virtual_cluster(body)
    except (errors.NotFound, InvalidNameError, InvalidSpecError):
        return None
