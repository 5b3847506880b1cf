"""Reconcile of the ClusterProfile of one VirtualCluster.

Hazard: the namespace belongs to users. Only a ClusterProfile that names this VirtualCluster as its
owner may be changed or deleted.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import conditions, wellknown
from tenancy.names import InvalidNameError
from tenancy.ownership import Tenant
from tenancy.resources import CLUSTER_PROFILES, SECRETS, VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError, parse_virtual_cluster
from vcmanager.pki import bundles
from vcmanager.plan.integrations import cluster_profiles
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.object_metadata import is_subset

_RETRY_SECONDS = 300.0
"""Interval in seconds between tries while the kind is missing or another object has the name."""
_SECOND_LOOK_SECONDS = 1.0
"""Delay in seconds after another client has just created a profile of that name."""


async def reconcile_cluster_profile(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Create or update the ClusterProfile. The garbage collector deletes it with its owner."""
    manager = means.settings.cluster_manager
    if not manager:
        return Done()
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
        tenant = parse_virtual_cluster(body).tenant
    except (errors.NotFound, InvalidNameError, InvalidSpecError):
        return Done()
    body = {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **body}
    found = await _fetch(means, tenant)
    if found is not None and not cluster_profiles.is_own(found, tenant):
        message = (
            f"ClusterProfile {tenant.name}: the object exists and does not belong to this"
            " VirtualCluster, so vc-manager does not change it. Delete it if it is not needed."
        )
        means.recorder.record(body, "ClusterProfileTaken", message, kind="Warning")
        return RequeueAfter(_RETRY_SECONDS)
    if found is not None and cluster_profiles.get_cluster_manager(found) != manager:
        await _delete(means, found)  # the field cannot change
        found = None
    is_ending = "deletionTimestamp" in body["metadata"]
    return Done() if found is None and is_ending else await _publish(means, tenant, body, found)


async def _publish(
    means: ReconcileContext, tenant: Tenant, body: Object, found: Object | None
) -> Result:
    """Write the profile and its status."""
    try:
        written = await _write(means, tenant, found)
    except errors.NotFound:
        message = (
            "ClusterProfile: the super cluster does not serve the kind. Install its"
            " CustomResourceDefinition, or set the chart value"
            " integrations.clusterProfiles.enabled to false."
        )
        means.recorder.record(body, "ClusterProfileUnknown", message, kind="Warning")
        return RequeueAfter(_RETRY_SECONDS)
    except errors.AlreadyExists:
        return RequeueAfter(_SECOND_LOOK_SECONDS)
    await _write_status(means, tenant, body, written)
    return RequeueAfter(RESYNC_SECONDS)


async def _fetch(means: ReconcileContext, tenant: Tenant) -> Object | None:
    try:
        return await means.super_client.get(
            CLUSTER_PROFILES, tenant.name, namespace=tenant.namespace
        )
    except errors.NotFound:
        return None


async def _write(means: ReconcileContext, tenant: Tenant, found: Object | None) -> Object:
    desired = cluster_profiles.build_profile(tenant, means.settings.cluster_manager)
    if found is None:
        # Never applied: an apply would overwrite a profile that has just appeared.
        return await means.super_client.create(
            CLUSTER_PROFILES, desired, field_manager=wellknown.MANAGER
        )
    head = {"apiVersion": desired["apiVersion"], "kind": desired["kind"]}
    if is_subset(desired, {**found, **head}):
        return found
    desired["metadata"]["uid"] = found["metadata"]["uid"]
    return await means.super_client.apply(
        CLUSTER_PROFILES, desired, field_manager=wellknown.MANAGER
    )


async def _write_status(
    means: ReconcileContext, tenant: Tenant, body: Mapping[str, Any], profile: Object
) -> None:
    old = profile.get("status") or {}
    metadata = profile["metadata"]
    status = cluster_profiles.build_status(
        body,
        tenant,
        await _fetch_kubeconfig(means, tenant),
        generation=metadata.get("generation", 0),
        now=conditions.format_time(means.now()),
        old=old,
    )
    if is_subset(status, old) and not old.keys() - status.keys():
        return
    document = {
        "apiVersion": CLUSTER_PROFILES.api_version,
        "kind": CLUSTER_PROFILES.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "status": status,
    }
    await means.super_client.apply(
        CLUSTER_PROFILES, document, subresource="status", field_manager=wellknown.MANAGER
    )


async def _fetch_kubeconfig(means: ReconcileContext, tenant: Tenant) -> bytes | None:
    """Return the admin kubeconfig. None until the control plane has one."""
    name = wellknown.ADMIN_KUBECONFIG
    try:
        secret = await means.super_client.get(SECRETS, name, namespace=tenant.root)
    except errors.NotFound:
        return None
    return bundles.read_data(secret, name) or None


async def _delete(means: ReconcileContext, found: Object) -> None:
    metadata = found["metadata"]
    await means.super_client.delete(
        CLUSTER_PROFILES,
        metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
    )
