"""Order in which the components of a new control plane are first created.

Owns the order of the very first start. Later changes are written to all components at once. Pure.
Hazard: a program that starts long before its dependency does not just wait. The API server dials
etcd with doubling pauses, and exits after 20 s. The controller manager retries every second and
exits after 10 s, twice before its restart is delayed. CoreDNS retries its API with doubling pauses,
too. Each component is therefore created when its dependency runs, and is ready by the time it is
needed. CoreDNS starts at once, so it is created when the API answers.
"""

from collections.abc import Mapping
from typing import Any

from vcmanager.plan import control_plane
from vcmanager.runtime.observed import Snapshot

_RUNS_BEFORE = {
    control_plane.API_SERVER: control_plane.ETCD,
    control_plane.CONTROLLER_MANAGER: control_plane.API_SERVER,
}


def may_be_made(workload: Mapping[str, Any], snapshot: Snapshot) -> bool:
    """Return whether a workload exists already, or its dependency runs."""
    name = workload["metadata"]["name"]
    if snapshot.get(workload["kind"], name) is not None or name == control_plane.ETCD:
        return True
    before = _RUNS_BEFORE.get(name)
    return (before is not None and _runs(snapshot, before)) or answers(snapshot)


def answers(snapshot: Snapshot) -> bool:
    """Return whether the tenant's API is ready."""
    workload = snapshot.get("StatefulSet", control_plane.API_SERVER)
    return workload is not None and (workload.get("status") or {}).get("readyReplicas", 0) > 0


def _runs(snapshot: Snapshot, component: str) -> bool:
    """Return whether every container of every pod of a component runs."""
    workload = snapshot.get("StatefulSet", component)
    wanted = workload["spec"].get("replicas", 1) if workload is not None else 1
    statuses = [
        (pod.get("status") or {}).get("containerStatuses") or ()
        for pod in snapshot.pods_of(component)
    ]
    return sum(bool(each) and all(map(_is_running, each)) for each in statuses) >= wanted


def _is_running(container: Mapping[str, Any]) -> bool:
    return "running" in (container.get("state") or {})
