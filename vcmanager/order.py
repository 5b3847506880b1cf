"""Which component is first made after which.

Owns the order of the very first start; later changes go to all at once. Pure. Hazard: a program
that is started before what it needs does not just wait. The API server dials etcd with pauses that
double, and ends after twenty seconds; the controller manager ends after ten; CoreDNS looks for its
API with pauses that double too. Each is started when what it needs answers, and finds it at once.
"""

from collections.abc import Mapping
from typing import Any

from vcmanager import controlplane
from vcmanager.snapshot import Snapshot


def may_be_made(workload: Mapping[str, Any], snapshot: Snapshot) -> bool:
    """Tell whether a workload is there already, or what it needs answers."""
    name = workload["metadata"]["name"]
    if snapshot.get(workload["kind"], name) is not None or name == controlplane.ETCD:
        return True
    if name == controlplane.API_SERVER:
        return _has_started(snapshot, controlplane.ETCD)
    return answers(snapshot)


def answers(snapshot: Snapshot) -> bool:
    """Tell whether the tenant's API is ready."""
    workload = snapshot.get("StatefulSet", controlplane.API_SERVER)
    return workload is not None and (workload.get("status") or {}).get("readyReplicas", 0) > 0


def _has_started(snapshot: Snapshot, component: str) -> bool:
    """Tell whether every pod of a component has got through its start-up probe."""
    workload = snapshot.get("StatefulSet", component)
    wanted = workload["spec"].get("replicas", 1) if workload is not None else 1
    statuses = [
        (pod.get("status") or {}).get("containerStatuses") or ()
        for pod in snapshot.pods_of(component)
    ]
    started = [each for each in statuses if each and all(one.get("started") for one in each)]
    return len(started) >= wanted
