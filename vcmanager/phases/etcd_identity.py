"""Which store a tenant's API server reads: known by the volumes, or containers, of its etcd.

Pure. Hazard: an API server answers from caches. One that goes on running when its store was
replaced by an empty one shows objects that are gone, and its controllers see nothing new; so the
store's identity is part of what makes those pods roll out. With several members, a member that
gets a new volume rolls them out too, which costs a restart and no answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from vcmanager.plan import control_plane
from vcmanager.runtime.observed import Snapshot

READERS = frozenset({control_plane.API_SERVER, control_plane.CONTROLLER_MANAGER})
"""Components that must not outlive the store they were started with."""


def identity(snapshot: Snapshot) -> str | None:
    """Return the identity of the store, or None while a member is missing or on its way out."""
    workload = snapshot.get("StatefulSet", control_plane.ETCD)
    pods = list(snapshot.pods_of(control_plane.ETCD))
    if workload is None or len(pods) < workload["spec"].get("replicas", 1):
        return None
    parts = [part for pod in pods for part in _parts(pod, snapshot)]
    if not parts or None in parts:
        return None
    return ",".join(sorted(filter(None, parts)))


def _parts(pod: Mapping[str, Any], snapshot: Snapshot) -> Iterator[str | None]:
    """Yield what holds a member's data; None for what is not there now."""
    if "deletionTimestamp" in pod["metadata"]:
        yield None
        return
    lasting = [*_lasting(pod, snapshot)]
    if lasting:
        yield from lasting
        return
    for status in (pod.get("status") or {}).get("containerStatuses") or [{}]:
        yield status.get("containerID") or None


def _lasting(pod: Mapping[str, Any], snapshot: Snapshot) -> Iterator[str | None]:
    for volume in pod["spec"].get("volumes") or ():
        claim_name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim_name:
            claim = snapshot.get("PersistentVolumeClaim", claim_name)
            is_there = claim is not None and "deletionTimestamp" not in claim["metadata"]
            yield claim["metadata"]["uid"] if claim is not None and is_there else None
        elif "hostPath" in volume:
            yield f"{pod['spec'].get('nodeName')}:{volume['hostPath'].get('path')}"
