"""Finalizer on each ClusterVersion that a tenant uses.

Hazard: the ClusterVersion must stay until its tenants are deleted. Without it a running tenant can
be neither repaired nor renewed.
"""

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import wellknown
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS, Resource
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey, build_key_of_listed, build_rollout_key

_RETRY_SECONDS = 60.0
_MAX_SHOWN_TENANTS = 5
"""Number of tenants that a message names. Further ones are only counted."""


async def reconcile_cluster_version(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Wake the tenants of a ClusterVersion. Release it when it is deleted and has none."""
    page = await means.super_client.list(
        VIRTUAL_CLUSTERS, field_selector=f"spec.clusterVersionName={key.name}", metadata_only=True
    )
    users = [build_key_of_listed(each) for each in page.get("items") or ()]
    for user in users:
        means.enqueue(user)
    means.enqueue(build_rollout_key(key.name))
    try:
        version = await means.super_client.get(CLUSTER_VERSIONS, key.name)
    except errors.NotFound:
        return Done()
    if "deletionTimestamp" not in version["metadata"]:
        return Done()
    if not users:
        await remove_finalizer(means, CLUSTER_VERSIONS, version)
        return Done()
    names = ", ".join(f"{user.namespace}/{user.name}" for user in users[:_MAX_SHOWN_TENANTS])
    more = f" and {len(users) - _MAX_SHOWN_TENANTS} more" if len(users) > _MAX_SHOWN_TENANTS else ""
    means.recorder.record(
        version,
        "InUse",
        f"The ClusterVersion cannot be deleted while VirtualClusters use it: {names}{more}.",
        kind="Warning",
    )
    return RequeueAfter(_RETRY_SECONDS)


async def add_finalizer(means: ReconcileContext, resource: Resource, found: Object) -> Object:
    """Add the manager's finalizer to an object, unless the object has it or is being deleted."""
    metadata = found["metadata"]
    finalizers = metadata.get("finalizers") or []
    if wellknown.FINALIZER in finalizers or "deletionTimestamp" in metadata:
        return found
    return await _write_finalizers(means, resource, found, [*finalizers, wellknown.FINALIZER])


async def remove_finalizer(means: ReconcileContext, resource: Resource, found: Object) -> None:
    """Remove the manager's finalizer from an object."""
    finalizers = found["metadata"].get("finalizers") or []
    if wellknown.FINALIZER not in finalizers:
        return
    kept = [each for each in finalizers if each != wellknown.FINALIZER]
    try:
        await _write_finalizers(means, resource, found, kept)
    except errors.NotFound:
        return


async def _write_finalizers(
    means: ReconcileContext, resource: Resource, found: Object, finalizers: list[str]
) -> Object:
    """Write the whole list, only if the object has not changed since it was read."""
    metadata = found["metadata"]
    patch = {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "finalizers": finalizers,
        }
    }
    return await means.super_client.patch(
        resource,
        metadata["name"],
        patch,
        namespace=metadata.get("namespace", ""),
        field_manager=wellknown.MANAGER,
    )
