"""Stand-in for an autoscaler: it finds unschedulable pods, writes Events, and joins a node.

Owns one round of that. The Events are those of the real cluster-autoscaler, and the node is a real
one. Must not know tenants. Hazard: it must write `TriggeredScaleUp` only for pods that the new node
takes. The Event of a pod takes effect for 15 min.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tools.testbed.cluster.api import Object, wait_for
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.progress import StepPrinter

GROUP = "MachineDeployment/default/pool"
"""Name of its node group, in the notation of the real cluster-autoscaler."""
PATIENCE_SECONDS = 60
_SOURCE = "cluster-autoscaler"


def scale(
    cluster: ClusterHandle, labels: Mapping[str, str], progress: StepPrinter | None = None
) -> str:
    """Join a node with these labels for the pods that wait for one. Returns the node's name.

    Raises TestbedError if no such pod appears within 1 min.
    """
    api = cluster.api
    waiting: list[Object] = []

    def seen() -> bool:
        waiting[:] = [pod for pod in api.get("/api/v1/pods")["items"] if _is_waiting(pod)]
        return any(_would_take(labels, pod) for pod in waiting)

    wait_for(
        f"no pod waits for a node with the labels {dict(labels)}",
        seen,
        seconds=PATIENCE_SECONDS,
        hint=lambda: f"{len(waiting)} wait for others",
    )
    for pod in waiting:
        api.create(_event(pod, is_taken=_would_take(labels, pod)))
    return cluster.add_node(labels, progress)


def _is_waiting(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(
        one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions
    )


def _would_take(labels: Mapping[str, str], pod: Object) -> bool:
    wanted = pod["spec"].get("nodeSelector", {})
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _event(pod: Object, *, is_taken: bool) -> Object:
    metadata = pod["metadata"]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    reason, message = (
        ("TriggeredScaleUp", f"pod triggered scale-up: [{{{GROUP} 0->1 (max: 3)}}]")
        if is_taken
        else (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector",
        )
    )
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{reason.lower()}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": _SOURCE},
        "reportingComponent": _SOURCE,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
