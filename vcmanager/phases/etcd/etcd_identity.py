"""Identity of the etcd data that a tenant's API server reads, from volumes or containers.

Pure. Hazard: an API server answers from caches. If it keeps running after its etcd was replaced by
an empty one, it shows deleted objects, and its controllers see nothing new. The identity is
therefore part of the digest that rolls out those pods. With several members, a new volume of one
member also rolls them out, which costs a restart and no answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from vcmanager.plan import control_plane
from vcmanager.runtime.observed import ObservedObjects

STORE_READERS = frozenset({control_plane.API_SERVER, control_plane.CONTROLLER_MANAGER})
"""Components that must not outlive the store they were started with."""


def compute_store_identity(snapshot: ObservedObjects) -> str | None:
    """Return the identity of the store, or None while a member is missing or being deleted."""
    workload = snapshot.get("StatefulSet", control_plane.ETCD)
    pods = list(snapshot.iterate_pods(control_plane.ETCD))
    if workload is None or len(pods) < workload["spec"].get("replicas", 1):
        return None
    parts = [part for pod in pods for part in _iterate_data_holders(pod, snapshot)]
    if not parts or None in parts:
        return None
    return ",".join(sorted(filter(None, parts)))


def _iterate_data_holders(
    pod: Mapping[str, Any], snapshot: ObservedObjects
) -> Iterator[str | None]:
    """Yield the identity of a member's storage, or None for a missing part."""
    if "deletionTimestamp" in pod["metadata"]:
        yield None
        return
    lasting = [*_iterate_volumes(pod, snapshot)]
    if lasting:
        yield from lasting
        return
    for status in (pod.get("status") or {}).get("containerStatuses") or [{}]:
        yield status.get("containerID") or None


def _iterate_volumes(pod: Mapping[str, Any], snapshot: ObservedObjects) -> Iterator[str | None]:
    for volume in pod["spec"].get("volumes") or ():
        claim_name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim_name:
            claim = snapshot.get("PersistentVolumeClaim", claim_name)
            is_there = claim is not None and "deletionTimestamp" not in claim["metadata"]
            yield claim["metadata"]["uid"] if claim is not None and is_there else None
        elif "hostPath" in volume:
            yield f"{pod['spec'].get('nodeName')}:{volume['hostPath'].get('path')}"
