"""Replaces pods where the template leaves that to somebody: updateStrategy OnDelete.

Hazard: one pod at a time, and only when all are ready, or a renewed certificate would take a
tenant's store below its quorum.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object, errors
from tenancy import marks
from tenancy.resources import PODS
from vcmanager.means import Means
from vcmanager.snapshot import Snapshot


def next_pod(workload: Mapping[str, Any], pods: Iterable[Object]) -> Object | None:
    """Return the pod to be replaced now, or None: the last one whose certificates are old."""
    strategy = workload["spec"].get("updateStrategy") or {}
    status = workload.get("status") or {}
    if (
        strategy.get("type") != "OnDelete"
        or status.get("readyReplicas", 0) < workload["spec"].get("replicas", 1)
        or status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0)
    ):
        return None
    wanted = _digest(workload["spec"]["template"]["metadata"])
    old = [pod for pod in pods if _digest(pod["metadata"]) != wanted]
    if any("deletionTimestamp" in pod["metadata"] for pod in old):
        return None
    return max(old, key=lambda pod: str(pod["metadata"]["name"]), default=None)


async def act(means: Means, snapshot: Snapshot) -> None:
    """Replace at most one pod of each such StatefulSet."""
    for name, workload in snapshot.named("StatefulSet").items():
        pod = next_pod(workload, snapshot.pods_of(name))
        if pod is None:
            continue
        metadata = pod["metadata"]
        try:
            await means.super_client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except errors.NotFound:
            continue


def _digest(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(marks.SECRETS_DIGEST, ""))
