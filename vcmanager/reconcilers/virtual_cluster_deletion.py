"""Ordered deletion of a tenant, without its API server.

Owns the order of deletion. Hazard: deletes cannot be undone. Each delete has the UID of the object
just read, and a namespace is deleted only if label and annotation both name this VirtualCluster's
UID. The finalizer is removed last, so that a crash at any point is followed by another try.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object, errors
from tenancy import conditions, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFUL_SETS,
    VIRTUAL_CLUSTERS,
)
from vcmanager.phases import root_namespace
from vcmanager.phases.access import kubeconfig_secrets
from vcmanager.reconcilers import finalizers
from vcmanager.reconcilers.lifetime.control_plane_stop import is_syncer_running
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.targets import tenant_cleanup

DISENGAGED = "Disengaged"
"""Reason of the condition Synced when the syncer has disconnected from a tenant."""
_RETRY_SECONDS = 1.0
_GRACE_SECONDS = 1
_MAX_SHOWN = 3


async def delete_tenant(means: ReconcileContext, body: Object, tenant: Tenant | None) -> None:
    """Run the next step of the deletion. Raises Held until everything is deleted.

    The message of Held has the rest. `tenant` is None when the VirtualCluster can never have been a
    tenant.
    """
    if wellknown.FINALIZER not in (body["metadata"].get("finalizers") or ()):
        return
    if tenant is not None:
        await _remove_finalizer(means, body)
        await tenant_cleanup.delete_tenant_in_targets(means, body, tenant)
        await _delete_super_namespaces(means, tenant)
        await _delete_root_namespace(means, tenant)
        await _wait_for_volumes(means, tenant)
        # Once more: a syncer that died in the middle may have created one after the last check.
        await _delete_super_namespaces(means, tenant)
        await means.tenant_clients.drop(tenant.uid)
        await kubeconfig_secrets.delete_secrets(means, tenant, body)
    await finalizers.remove_finalizer(means, VIRTUAL_CLUSTERS, body)


async def delete_late_objects(means: ReconcileContext, body: Object, tenant: Tenant) -> None:
    """Delete objects created for a tenant after its end. Raises Held while any exist."""
    await _delete_super_namespaces(means, tenant)
    await tenant_cleanup.delete_tenant_in_targets(means, body, tenant)


def is_disengaged(status: Mapping[str, Any]) -> bool:
    """Return whether the syncer reports that it is disconnected from a tenant.

    A missing report means nothing, because a session may be about to begin. A running syncer
    reports it of every VirtualCluster that is being deleted, also of one that it never connected
    to.
    """
    synced = conditions.find_condition(status.get("conditions"), wellknown.SYNCED) or {}
    return synced.get("status") == "False" and synced.get("reason") == DISENGAGED


def is_namespace_of_tenant(namespace: Mapping[str, Any], tenant: Tenant) -> bool:
    """Return whether label and annotation of a namespace both record this tenant."""
    metadata = namespace["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return (
        labels.get(wellknown.VC_UID) == tenant.uid
        and annotations.get(wellknown.VC_UID) == tenant.uid
        and metadata["name"] != tenant.root
    )


def describe_remaining(namespaces: Iterable[Mapping[str, Any]]) -> str:
    """Return, for people, the remaining namespaces and what delays their deletion."""
    told: list[str] = []
    found = list(namespaces)
    for namespace in found[:_MAX_SHOWN]:
        reasons = [
            str(each.get("message", ""))
            for each in (namespace.get("status") or {}).get("conditions") or ()
            if each.get("status") == "True"
        ]
        name = namespace["metadata"]["name"]
        told.append(f"{name} ({'; '.join(reasons)})" if reasons else name)
    more = f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    return ", ".join(told) + more


async def _remove_finalizer(means: ReconcileContext, body: Object) -> None:
    if is_disengaged(body.get("status") or {}):
        return
    if await is_syncer_running(means):
        raise _build_deleting("the syncer has not disconnected from the tenant yet")


async def _delete_super_namespaces(means: ReconcileContext, tenant: Tenant) -> None:
    page = await means.super_client.list(
        NAMESPACES, label_selector=f"{wellknown.VC_UID}={tenant.uid}"
    )
    theirs = [each for each in page.get("items") or () if is_namespace_of_tenant(each, tenant)]
    for namespace in theirs:
        await _delete_namespace(means, namespace)
    if theirs:
        raise _build_deleting(f"waiting for namespaces to be deleted: {describe_remaining(theirs)}")


async def _delete_root_namespace(means: ReconcileContext, tenant: Tenant) -> None:
    try:
        namespace = await means.super_client.get(NAMESPACES, tenant.root)
    except errors.NotFound:
        return
    if not root_namespace.is_own_namespace(namespace, tenant):
        return  # same name, but another owner: never deleted
    if "deletionTimestamp" not in namespace["metadata"]:
        await _stop_control_plane(means, tenant)
    await _delete_namespace(means, namespace)
    raise _build_deleting(
        f"waiting for namespaces to be deleted: {describe_remaining([namespace])}"
    )


async def _stop_control_plane(means: ReconcileContext, tenant: Tenant) -> None:
    """Delete pods and volumes first, and quickly, because no data must be saved.

    A namespace deleted with them in it is checked again only after their grace period.
    """
    for resource in (STATEFUL_SETS, DEPLOYMENTS, PODS, PERSISTENT_VOLUME_CLAIMS):
        page = await means.super_client.list(resource, namespace=tenant.root)
        grace = _GRACE_SECONDS if resource is PODS else None
        for found in page.get("items") or ():
            metadata = found["metadata"]
            if _is_being_deleted(metadata):
                continue
            with contextlib.suppress(errors.NotFound):
                await means.super_client.delete(
                    resource,
                    metadata["name"],
                    namespace=tenant.root,
                    uid=metadata["uid"],
                    grace_seconds=grace,
                    # Otherwise the garbage collector would end the pods, with their whole grace
                    # period.
                    propagation="Orphan" if resource is STATEFUL_SETS else None,
                )
    for resource, what in ((PODS, "pods"), (PERSISTENT_VOLUME_CLAIMS, "volume claims")):
        left = (await means.super_client.list(resource, namespace=tenant.root)).get("items") or ()
        if left:
            names = ", ".join(sorted(each["metadata"]["name"] for each in left))
            raise _build_deleting(f"waiting for {what} of the control plane to be deleted: {names}")


async def _delete_namespace(means: ReconcileContext, namespace: Object) -> None:
    metadata = namespace["metadata"]
    if "deletionTimestamp" in metadata:
        return
    try:
        await means.super_client.delete(NAMESPACES, metadata["name"], uid=metadata["uid"])
    except errors.NotFound:
        return


async def _wait_for_volumes(means: ReconcileContext, tenant: Tenant) -> None:
    """Wait for volumes that their provisioner deletes. Retained volumes are left to it."""
    page = await means.super_client.list(PERSISTENT_VOLUMES)
    waiting = [
        each["metadata"]["name"]
        for each in page.get("items") or ()
        if _is_volume_going(each, tenant)
    ]
    if waiting:
        raise _build_deleting(
            f"waiting for volumes to be deleted: {', '.join(sorted(waiting)[:_MAX_SHOWN])}"
        )


def _is_being_deleted(metadata: Mapping[str, Any]) -> bool:
    """Return whether an object is being deleted, a pod with at most the grace used here."""
    return (
        "deletionTimestamp" in metadata
        and metadata.get("deletionGracePeriodSeconds", 0) <= _GRACE_SECONDS
    )


def _is_volume_going(volume: Mapping[str, Any], tenant: Tenant) -> bool:
    spec = volume["spec"]
    claim = spec.get("claimRef") or {}
    return (
        claim.get("namespace") == tenant.root
        and spec.get("persistentVolumeReclaimPolicy") == "Delete"
    )


def _build_deleting(message: str) -> PhaseBlocked:
    return PhaseBlocked("Deleting", message, retry_after=_RETRY_SECONDS)
