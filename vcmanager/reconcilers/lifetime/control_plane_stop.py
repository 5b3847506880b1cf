"""Stop of a tenant's control plane, and the facts that it depends on.

Owns the scaling to zero for scheduled deletion, restore and sleep. Everything else of the tenant is
kept: volumes, Secrets, Services and the tenant's own pods.
"""

from collections.abc import Collection

from kubeio import errors
from tenancy import wellknown
from tenancy.resources import DEPLOYMENTS, LEASES, STATEFUL_SETS
from vcmanager.phases import startup_order
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.snapshots import jobs

_RESOURCES = (STATEFUL_SETS, DEPLOYMENTS)


async def stop_control_plane(means: ReconcileContext, observed: ObservedObjects) -> None:
    """Scale all own workloads to zero at once."""
    await _scale_to_zero(means, observed, list_scaled_workloads(observed))


async def stop_in_order(means: ReconcileContext, observed: ObservedObjects) -> None:
    """Scale the own workloads to zero that no other workload needs any longer.

    The caller repeats it until no component runs. The API server stops before etcd. Otherwise its
    last writes would fail, and programs would exit with errors.
    """
    scaled = list_scaled_workloads(observed)
    active = {*scaled, *_list_pod_components(observed)}
    await _scale_to_zero(means, observed, startup_order.list_stoppable(scaled, active))


def list_scaled_workloads(observed: ObservedObjects) -> list[str]:
    """Return the names of the own workloads that have replicas."""
    return [
        name
        for resource in _RESOURCES
        for name, found in observed.get_by_name(resource.kind).items()
        if wellknown.LAST_WRITTEN_DIGEST in (found["metadata"].get("annotations") or {})
        and found["spec"].get("replicas", 1) != 0
    ]


def has_running_component(observed: ObservedObjects) -> bool:
    """Return whether an own workload has replicas, or a pod of a component exists.

    Neither pods of Jobs nor pods without the label of a component are waited for.
    """
    return bool(list_scaled_workloads(observed) or _list_pod_components(observed))


async def is_syncer_running(means: ReconcileContext) -> bool:
    """Return whether a syncer holds its Lease, so that it may be connected to tenants."""
    try:
        lease = await means.super_client.get(LEASES, wellknown.SYNCER, namespace=means.namespace)
    except errors.NotFound:
        lease = None
    return means.syncer_lease_observer.is_held(lease)


def _list_pod_components(observed: ObservedObjects) -> set[str]:
    labels = (
        (pod["metadata"].get("labels") or {}).get(wellknown.COMPONENT)
        for pod in observed.get_by_name("Pod").values()
    )
    return {each for each in labels if each not in (None, jobs.COMPONENT)}


async def _scale_to_zero(
    means: ReconcileContext, observed: ObservedObjects, names: Collection[str]
) -> None:
    for resource in _RESOURCES:
        for name, found in observed.get_by_name(resource.kind).items():
            if name not in names:
                continue
            metadata = found["metadata"]
            await means.super_client.patch(
                resource,
                name,
                {"metadata": {"uid": metadata["uid"]}, "spec": {"replicas": 0}},
                namespace=metadata["namespace"],
                field_manager=wellknown.MANAGER,
            )
