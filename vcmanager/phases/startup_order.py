"""Order in which the components of a control plane are created, and get other images.

Owns the order of the first start and of an upgrade. Other changes are written to all components at
once. Pure.
Hazard: a program that starts long before its dependency does not just wait. The API server dials
etcd with doubling pauses, and exits after 20 s. The controller manager retries every second and
exits after 10 s, twice before its restart is delayed. CoreDNS retries its API with doubling pauses,
too. Each component is therefore created when its dependency runs, and is ready by the time it is
needed. CoreDNS starts at once, so it is created when the API answers.

An upgrade has the same order, which Kubernetes' version skew policy demands
(https://kubernetes.io/releases/version-skew-policy/). An image that does not start therefore stops
the upgrade at its component.
"""

from collections.abc import Collection, Mapping
from typing import Any

from vcmanager.plan import control_plane
from vcmanager.runtime.observed import ObservedObjects

_STARTS_AFTER = {
    control_plane.API_SERVER: control_plane.ETCD,
    control_plane.CONTROLLER_MANAGER: control_plane.API_SERVER,
}

_STOPPED_LAST = (control_plane.API_SERVER, control_plane.ETCD)
"""Components that other components need, in the order in which they stop."""


def may_create(workload: Mapping[str, Any], snapshot: ObservedObjects) -> bool:
    """Return whether a workload exists already, or its dependency runs.

    A workload with 0 replicas counts as missing, because it starts when the tenant wakes.
    """
    name = workload["metadata"]["name"]
    existing = snapshot.get(workload["kind"], name)
    is_stopped = existing is not None and existing["spec"].get("replicas") == 0
    if (existing is not None and not is_stopped) or name == control_plane.ETCD:
        return True
    before = _STARTS_AFTER.get(name)
    return (before is not None and _is_component_running(snapshot, before)) or is_api_ready(
        snapshot
    )


def list_stoppable(scaled: Collection[str], active: Collection[str]) -> list[str]:
    """Return the workloads that may stop now, in the reverse order of the start.

    `scaled` has the names of the workloads with replicas, and `active` those with replicas or pods.
    A component stops only when no pod of the components that need it exists.
    """
    due = [name for name in active if name not in _STOPPED_LAST]
    for name in _STOPPED_LAST:
        if not due:
            due = [name] if name in active else []
    return [name for name in due if name in scaled]


def is_upgrade_held(
    workload: Mapping[str, Any],
    wanted: Mapping[str, Mapping[str, Any]],
    snapshot: ObservedObjects,
) -> bool:
    """Return whether a workload keeps its images until its dependency runs with the wanted ones.

    `wanted` has the desired StatefulSets by name.
    """
    name = workload["metadata"]["name"]
    before = _STARTS_AFTER.get(name)
    existing = snapshot.get(workload["kind"], name)
    if before is None or existing is None or _list_images(workload) == _list_images(existing):
        return False
    dependency = snapshot.get("StatefulSet", before)
    if dependency is None or before not in wanted:
        return False
    return _list_images(wanted[before]) != _list_images(dependency) or not is_rolled_out(dependency)


def is_all_rolled_out(snapshot: ObservedObjects) -> bool:
    """Return whether every pod of every workload has the present template and is ready."""
    return all(
        is_rolled_out(each) and (each.get("status") or {}).get("replicas", 0) <= _replicas(each)
        for kind in ("StatefulSet", "Deployment")
        for each in snapshot.get_by_name(kind).values()
    )


def is_api_ready(snapshot: ObservedObjects) -> bool:
    """Return whether the tenant's API is ready."""
    workload = snapshot.get("StatefulSet", control_plane.API_SERVER)
    return workload is not None and (workload.get("status") or {}).get("readyReplicas", 0) > 0


def is_updated(workload: Mapping[str, Any]) -> bool:
    """Return whether all pods of a workload have its template."""
    status: Mapping[str, int] = workload.get("status") or {}
    replicas = _replicas(workload)
    return (
        status.get("observedGeneration", 0) >= workload["metadata"].get("generation", 0)
        and status.get("updatedReplicas", 0) >= replicas
    )


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """Return whether all pods of a workload have its template and are ready."""
    status: Mapping[str, int] = workload.get("status") or {}
    return is_updated(workload) and status.get("readyReplicas", 0) >= _replicas(workload)


def _list_images(workload: Mapping[str, Any]) -> list[str]:
    pod = workload["spec"]["template"]["spec"]
    return [str(each.get("image", "")) for each in pod.get("containers") or ()]


def _replicas(workload: Mapping[str, Any]) -> int:
    replicas: int = workload["spec"].get("replicas", 1)
    return replicas


def _is_component_running(snapshot: ObservedObjects, component: str) -> bool:
    """Return whether every container of every pod of a component runs."""
    workload = snapshot.get("StatefulSet", component)
    wanted = max(1, workload["spec"].get("replicas", 1) if workload is not None else 1)
    statuses = [
        (pod.get("status") or {}).get("containerStatuses") or ()
        for pod in snapshot.iterate_pods(component)
    ]
    return sum(bool(each) and all(map(_is_container_running, each)) for each in statuses) >= wanted


def _is_container_running(container: Mapping[str, Any]) -> bool:
    return "running" in (container.get("state") or {})
