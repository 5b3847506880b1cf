"""Table of certificates in a tenant, and the tenant's request to renew them.

A tenant requests by an annotation of the table. The request is copied to the VirtualCluster, whose
next reconcile renews. Hazard: the tenant controls the annotation. Only its time is copied.
"""

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, EVENTS, VIRTUAL_CLUSTERS
from vcmanager.plan import certificate_table
from vcmanager.plan.certificate_table import RotationRow
from vcmanager.runtime.certificate_expiry import CertificateValidity
from vcmanager.runtime.context import ReconcileContext


async def exchange(
    context: ReconcileContext,
    tenant_client: Client,
    body: Object,
    tenant: Tenant,
    validities: Mapping[str, CertificateValidity],
    *,
    rotations: Iterable[RotationRow] = (),
    replaced_ends: Iterable[datetime] = (),
    lifetime: timedelta = timedelta(0),
) -> None:
    """Write the table in the tenant, and copy a newer request to the VirtualCluster.

    `replaced_ends` are the ends of replaced admin kubeconfigs, for Events in the tenant. `lifetime`
    is the life of a kubeconfig.

    A tenant that rejects the table is no failure: it only loses its own view.
    """
    table = certificate_table.build_config_map(validities, rotations=rotations)
    table["metadata"]["labels"] = {wellknown.BOOTSTRAP: "true"}
    try:
        shown = await tenant_client.apply(CONFIG_MAPS, table, field_manager=wellknown.MANAGER)
    except errors.KubeError:
        return  # kube-public does not exist yet, or a webhook of the tenant rejects the table
    now = context.now()
    for event in certificate_table.build_end_events(
        shown, replaced_ends, lifetime=lifetime, now=now
    ):
        with contextlib.suppress(errors.KubeError):  # the tenant rejects it
            await _write_event(tenant_client, event)
    requested = certificate_table.parse_request(shown, now)
    known = certificate_table.parse_request(body, now)
    if requested is None or (known is not None and requested <= known):
        return
    await context.super_client.patch(
        VIRTUAL_CLUSTERS,
        tenant.name,
        {
            "metadata": {
                "uid": tenant.uid,
                "annotations": {wellknown.RENEW_CERTIFICATES: requested.isoformat()},
            }
        },
        namespace=tenant.namespace,
        field_manager=wellknown.MANAGER,
    )


async def _write_event(tenant_client: Client, event: Object) -> None:
    """Create an Event, or extend its life. An API server deletes it an hour after a write."""
    try:
        await tenant_client.create(EVENTS, event, field_manager=wellknown.MANAGER)
    except errors.AlreadyExists:
        metadata = event["metadata"]
        await tenant_client.patch(
            EVENTS,
            metadata["name"],
            {"lastTimestamp": event["lastTimestamp"]},
            namespace=metadata["namespace"],
            field_manager=wellknown.MANAGER,
        )
