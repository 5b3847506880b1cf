"""The rules by which cluster-autoscaler decides whether a pod lets its node go.

The program is not in the Go module proxy, so its rules stand here as a table, in its order:
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/simulator/drainability/rules/rules.go
Left out are the rules that no copy of a tenant's pod can meet: mirror pods, pods of kube-system,
and pods that have ended. Budgets are the API server's matter at the eviction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DAEMON_SET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
_LOOKED_UP = frozenset({"Job", "ReplicaSet", "ReplicationController", "StatefulSet"})
_KNOWN_CONTROLLERS = _LOOKED_UP | {"DaemonSet"}


def find_blocker(pod: Mapping[str, Any], *, skips_custom_controllers: bool = True) -> str:
    """Return why the node of a pod stays, by the program's own name of it. Empty if it may go.

    `skips_custom_controllers` is its flag `--skip-nodes-with-custom-controller-pods`, with its
    default. No object of a known controller exists in the namespace of a copy.
    """
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    owners = metadata.get("ownerReferences") or ()
    kind = next((owner["kind"] for owner in owners if owner.get("controller")), "")
    marked = annotations.get(_SAFE_TO_EVICT)
    is_replicated = kind in _KNOWN_CONTROLLERS or not skips_custom_controllers
    volumes = pod["spec"].get("volumes") or ()
    has_scratch = any("emptyDir" in volume or "hostPath" in volume for volume in volumes)
    rules = (  # the first that applies decides
        (skips_custom_controllers and kind in _LOOKED_UP, "ControllerNotFound"),
        (kind == "DaemonSet" or annotations.get(_DAEMON_SET_POD) == "true", ""),
        (marked == "true", ""),
        (not kind or not is_replicated, "NotReplicated"),
        (marked == "false", "NotSafeToEvictAnnotation"),
        (has_scratch, "LocalStorageRequested"),
    )
    return next((blocker for applies, blocker in rules if applies), "")
