"""Reconcile of one VirtualClusterControlPlane, the control plane of a Cluster of Cluster API.

Owns the VirtualCluster of the control plane, its finalizer, its endpoint and its status. Hazard:
the VirtualCluster must be deleted before the finalizer is removed. Otherwise Cluster API reports
the Cluster as deleted while the tenant still exists.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTER_CONTROL_PLANES, VIRTUAL_CLUSTERS
from vcmanager.plan.integrations import control_planes
from vcmanager.plan.integrations.control_planes import ClusterOwner, Refusal
from vcmanager.reconcilers import finalizers
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.object_metadata import is_subset

FIELD_MANAGER = f"{wellknown.MANAGER}-cluster-api"
"""Field manager of the VirtualCluster. A field that is no longer wanted is removed."""
_POLL_SECONDS = 30.0
"""Interval in seconds while the Cluster is paused, or a refused change may become allowed."""
_DELETION_PROBLEM = (
    "VirtualCluster {name}: it is protected or has a grace period, so vc-manager does not delete"
    " it. Remove the label tenancy.x-k8s.io/deletion-protection, and set spec.deletionGracePeriod"
    " to 0s."
)
"""Message with the field `name`."""


async def reconcile_control_plane(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Reconcile one control plane. Without an owner of the kind Cluster nothing is done."""
    client = means.super_client
    try:
        body = await client.get(VIRTUAL_CLUSTER_CONTROL_PLANES, key.name, namespace=key.namespace)
    except errors.NotFound:
        return Done()
    owner = control_planes.find_cluster(body)
    if owner is None:
        return await _release(means, body) if _is_deleted(body) else Done()
    cluster = await _fetch_cluster(means, owner, key.namespace)
    if control_planes.is_paused(body, cluster):
        existing = await _fetch_virtual_cluster(means, owner.name, body)
        await _write_status(means, body, existing, refusal=None, paused=True)
        return RequeueAfter(_POLL_SECONDS)
    if _is_deleted(body):
        return await _delete(means, body, owner)
    body = await finalizers.add_finalizer(means, VIRTUAL_CLUSTER_CONTROL_PLANES, body)
    existing, refusal = await _apply_virtual_cluster(means, body, owner)
    if existing is not None:
        await _write_endpoint(means, body, existing)
    await _write_status(means, body, existing, refusal=refusal, paused=False)
    return RequeueAfter(RESYNC_SECONDS if refusal is None else _POLL_SECONDS)


async def _fetch_cluster(
    means: ReconcileContext, owner: ClusterOwner, namespace: str
) -> Object | None:
    try:
        found = await means.super_client.get(owner.resource, owner.name, namespace=namespace)
    except errors.NotFound:
        return None
    return found if found["metadata"]["uid"] == owner.uid else None


async def _fetch_virtual_cluster(means: ReconcileContext, name: str, body: Object) -> Object | None:
    """Return the VirtualCluster of this control plane, or None."""
    try:
        found = await means.super_client.get(
            VIRTUAL_CLUSTERS, name, namespace=body["metadata"]["namespace"]
        )
    except errors.NotFound:
        return None
    return found if control_planes.is_owned(found, body["metadata"]["uid"]) else None


async def _apply_virtual_cluster(
    means: ReconcileContext, body: Object, owner: ClusterOwner
) -> tuple[Object | None, Refusal | None]:
    """Create or change the VirtualCluster. Return it, and why it could not be as declared."""
    client = means.super_client
    desired = control_planes.build_virtual_cluster(body, owner)
    try:
        found = await client.get(
            VIRTUAL_CLUSTERS, owner.name, namespace=body["metadata"]["namespace"]
        )
    except errors.NotFound:
        found = None
    if found is not None and not control_planes.is_owned(found, body["metadata"]["uid"]):
        message = (
            f"VirtualCluster {owner.name}: it exists and does not belong to this control plane."
            " Delete it, or use a Cluster with another name."
        )
        return None, ("VirtualClusterTaken", message)
    if found is not None and _is_deleted(found):
        return found, None
    if found is not None and _is_as_declared(found, desired):
        return found, None
    try:
        return await client.apply(VIRTUAL_CLUSTERS, desired, field_manager=FIELD_MANAGER), None
    except (errors.Invalid, errors.Forbidden, errors.BadRequest) as problem:
        return found, ("VirtualClusterRefused", str(problem))


def _is_as_declared(found: Object, desired: Mapping[str, Any]) -> bool:
    """Return whether an apply would change nothing. Users may add forms of kubeconfig Secrets."""
    head = {"apiVersion": desired["apiVersion"], "kind": desired["kind"]}
    spec = dict(desired["spec"])
    missing = set(spec.pop("kubeconfigSecrets")) - set(found["spec"].get("kubeconfigSecrets") or ())
    # A removed field is in no declaration. Its owner in managedFields is this reconcile.
    optional = {"policyRef", "endpoint"} - spec.keys()
    is_left = any(
        f"f:{field}" in (each.get("fieldsV1") or {}).get("f:spec", {})
        for each in found["metadata"].get("managedFields") or ()
        if each.get("manager") == FIELD_MANAGER
        for field in optional
    )
    return not missing and not is_left and is_subset({**desired, "spec": spec}, {**found, **head})


async def _write_endpoint(means: ReconcileContext, body: Object, existing: Object) -> None:
    """Write `spec.controlPlaneEndpoint`, which Cluster API copies to the Cluster."""
    url = str((existing.get("status") or {}).get("endpoint") or "")
    endpoint = control_planes.parse_endpoint(url)
    if endpoint is None or body["spec"].get("controlPlaneEndpoint") == endpoint:
        return
    metadata = body["metadata"]
    patch = {"metadata": {"uid": metadata["uid"]}, "spec": {"controlPlaneEndpoint": endpoint}}
    changed = await means.super_client.patch(
        VIRTUAL_CLUSTER_CONTROL_PLANES,
        metadata["name"],
        patch,
        namespace=metadata["namespace"],
        field_manager=wellknown.MANAGER,
    )
    metadata["generation"] = changed["metadata"].get("generation", 0)


async def _write_status(
    means: ReconcileContext,
    body: Object,
    existing: Object | None,
    *,
    refusal: Refusal | None,
    paused: bool,
) -> None:
    old = body.get("status") or {}
    status = control_planes.build_status(
        body,
        existing,
        refusal=refusal,
        paused=paused,
        now=conditions.format_time(means.now()),
    )
    if is_subset(status, old):
        return
    metadata = body["metadata"]
    document = {
        "apiVersion": VIRTUAL_CLUSTER_CONTROL_PLANES.api_version,
        "kind": VIRTUAL_CLUSTER_CONTROL_PLANES.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "status": status,
    }
    with contextlib.suppress(errors.NotFound):
        await means.super_client.apply(
            VIRTUAL_CLUSTER_CONTROL_PLANES,
            document,
            subresource="status",
            field_manager=wellknown.MANAGER,
        )


async def _delete(means: ReconcileContext, body: Object, owner: ClusterOwner) -> Result:
    """Delete the VirtualCluster, wait until it is deleted, and remove the finalizer."""
    existing = await _fetch_virtual_cluster(means, owner.name, body)
    if existing is None:
        return await _release(means, body)
    if not _is_deleted(existing):
        metadata = existing["metadata"]
        try:
            await means.super_client.delete(
                VIRTUAL_CLUSTERS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
        except errors.NotFound:
            return await _release(means, body)
        except errors.Forbidden:
            message = _DELETION_PROBLEM.format(name=metadata["name"])
            refusal = "DeletionRefused", message
            await _write_status(means, body, existing, refusal=refusal, paused=False)
            return RequeueAfter(_POLL_SECONDS)
    await _write_status(means, body, existing, refusal=None, paused=False)
    return RequeueAfter(_POLL_SECONDS)  # the end of the VirtualCluster queues this key earlier


async def _release(means: ReconcileContext, body: Object) -> Result:
    await finalizers.remove_finalizer(means, VIRTUAL_CLUSTER_CONTROL_PLANES, body)
    return Done()


def _is_deleted(body: Object) -> bool:
    return "deletionTimestamp" in body["metadata"]
