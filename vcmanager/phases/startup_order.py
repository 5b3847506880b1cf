"""Which component is first made after which.

Owns the order of the very first start; later changes go to all at once. Pure. Hazard: a program
that is started long before what it needs does not just wait. The API server dials etcd with pauses
that double, and ends after twenty seconds; the controller manager looks each second and ends after
ten, twice before it is kept waiting; CoreDNS looks for its API with pauses that double too. So each
is made when what it needs runs, and has come up by the time that it is needed; CoreDNS, which is up
at once, when the API answers.
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
    """Tell whether a workload is there already, or what it needs answers."""
    name = workload["metadata"]["name"]
    if snapshot.get(workload["kind"], name) is not None or name == control_plane.ETCD:
        return True
    before = _RUNS_BEFORE.get(name)
    return (before is not None and _runs(snapshot, before)) or answers(snapshot)


def answers(snapshot: Snapshot) -> bool:
    """Tell whether the tenant's API is ready."""
    workload = snapshot.get("StatefulSet", control_plane.API_SERVER)
    return workload is not None and (workload.get("status") or {}).get("readyReplicas", 0) > 0


def _runs(snapshot: Snapshot, component: str) -> bool:
    """Tell whether every container of every pod of a component runs."""
    workload = snapshot.get("StatefulSet", component)
    wanted = workload["spec"].get("replicas", 1) if workload is not None else 1
    statuses = [
        (pod.get("status") or {}).get("containerStatuses") or ()
        for pod in snapshot.pods_of(component)
    ]
    return sum(bool(each) and all(map(_is_running, each)) for each in statuses) >= wanted


def _is_running(container: Mapping[str, Any]) -> bool:
    return "running" in (container.get("state") or {})
