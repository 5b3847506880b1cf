"""Deletion of a tenant's objects in other super clusters, before the tenant ends.

Owns what is deleted in targets, and when the deletion is abandoned. Must not delete anything in the
home cluster. Hazards: deletes cannot be undone. A namespace is deleted only if it records this
tenant and this very registration, and only in the cluster known by that name. A cluster that does
not answer may still have all of the tenant's objects. It blocks the deletion of the tenant until a
person records that the cluster is to be left out.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from kubeio.config.endpoint import Endpoint
from tenancy import super_clusters, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, SECRETS, SUPER_CLUSTERS
from tenancy.specs import InvalidSpecError
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.targets import probe
from vcmanager.targets.super_cluster import decode_data

RETRY_SECONDS = 2.0
UNREACHABLE_RETRY_SECONDS = 15.0
"""Retry interval in seconds while a cluster does not answer."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def delete_tenant_in_targets(means: ReconcileContext, body: Object, tenant: Tenant) -> None:
    """Delete a tenant's objects in other super clusters. Raises Held while any is left."""
    named = [str(each.get("name")) for each in (body.get("status") or {}).get("targets") or ()]
    if not named:
        return
    listed = (await means.super_client.list(SUPER_CLUSTERS)).get("items") or ()
    declared = {each["metadata"]["name"]: each for each in listed}
    for name in named:
        cluster = declared.get(name)
        if cluster is None:
            _log.warning(
                "tenant.objects_left", tenant=tenant.root, target=name
            )  # no client is known for it
        elif wellknown.ABANDON in (cluster["metadata"].get("annotations") or {}):
            _log.warning("tenant.abandoned", tenant=tenant.root, target=name)
        else:
            await _delete_tenant_in_target(means, cluster, tenant)


async def _delete_tenant_in_target(
    means: ReconcileContext, cluster: Object, tenant: Tenant
) -> None:
    metadata = cluster["metadata"]
    name, registration = metadata["name"], metadata["uid"]
    try:
        client = await means.target_clients.get_client(name, await _get_endpoint(means, cluster))
        identity = super_clusters.parse_status(cluster).identity
        if not identity or await probe.fetch_identity(client) != identity:
            raise PhaseBlocked(
                "Deleting",
                _describe_unreachable(name, "another cluster answers"),
                retry_after=UNREACHABLE_RETRY_SECONDS,
            )
        left = await _delete_namespaces(client, tenant, registration)
    except errors.Fenced:
        raise
    except (errors.KubeError, InvalidSpecError) as problem:
        raise PhaseBlocked(
            "Deleting",
            _describe_unreachable(name, str(problem)),
            retry_after=UNREACHABLE_RETRY_SECONDS,
        ) from problem
    if left:
        message = f"waiting for namespaces in the super cluster {name} to be deleted: {left}"
        raise PhaseBlocked("Deleting", message, retry_after=RETRY_SECONDS)


async def _delete_namespaces(client: Client, tenant: Tenant, registration: str) -> str:
    """Delete a tenant's namespaces. Returns up to 3 remaining names for a message."""
    selector = f"{wellknown.VC_UID}={tenant.uid},{wellknown.SUPER_CLUSTER}={registration}"
    page = await client.list(NAMESPACES, label_selector=selector)
    theirs = [
        each
        for each in page.get("items") or ()
        if _is_namespace_of_tenant(each, tenant, registration)
    ]
    for namespace in theirs:
        metadata = namespace["metadata"]
        if "deletionTimestamp" not in metadata:
            try:
                await client.delete(NAMESPACES, metadata["name"], uid=metadata["uid"])
            except errors.NotFound:
                continue
    return ", ".join(each["metadata"]["name"] for each in theirs[:3])


def _is_namespace_of_tenant(
    namespace: Mapping[str, Any], tenant: Tenant, registration: str
) -> bool:
    """Return whether labels and annotations both record this tenant and this registration."""
    metadata = namespace["metadata"]
    return all(
        (metadata.get(field) or {}).get(key) == value
        for field in ("labels", "annotations")
        for key, value in ((wellknown.VC_UID, tenant.uid), (wellknown.SUPER_CLUSTER, registration))
    )


async def _get_endpoint(means: ReconcileContext, cluster: Object) -> Endpoint:
    spec = super_clusters.parse_spec(cluster)
    ref = spec.secret_ref
    if ref is None:
        raise InvalidSpecError("it has no Secret")
    secret = await means.super_client.get(SECRETS, ref.name, namespace=means.namespace)
    return secret_kubeconfig.parse_endpoint(
        decode_data(secret.get("data") or {}),
        name=f"SuperCluster {cluster['metadata']['name']}",
        key=ref.key,
        context=ref.context,
        server=spec.server,
        tls_server_name=spec.tls_server_name,
    )


def _describe_unreachable(name: str, problem: str) -> str:
    return (
        f"The super cluster {name} cannot be asked for the tenant's objects: {problem}. If it was"
        f" removed for good, run `kubectl annotate supercluster {name} {wellknown.ABANDON}=`. The"
        " tenant's objects in it then stay."
    )
