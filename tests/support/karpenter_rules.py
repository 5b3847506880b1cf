"""The rules by which Karpenter decides what happens to a pod.

They are those of `pkg/utils/pod/scheduling.go` of v1.14.0, which the table of programs pins:
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.0/pkg/utils/pod/scheduling.go
Left out are pods that have ended, are being deleted, or preempt others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TAINT = "karpenter.sh/disrupted"
_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def is_evictable(pod: Mapping[str, Any]) -> bool:
    """Return whether a drain of the node evicts the pod."""
    annotations = pod["metadata"].get("annotations") or {}
    return not (_tolerates(pod) or _is_owned(pod, "Node") or _DO_NOT_DISRUPT in annotations)


def is_drainable(pod: Mapping[str, Any]) -> bool:
    """Return whether a drain of the node waits until the pod is gone."""
    return not (_tolerates(pod) or _is_owned(pod, "Node"))


def is_provisionable(pod: Mapping[str, Any]) -> bool:
    """Return whether Karpenter makes a node for the pod once the scheduler has found none."""
    return not (pod["spec"].get("nodeName") or _is_owned(pod, "DaemonSet", "Node"))


def _is_owned(pod: Mapping[str, Any], *kinds: str) -> bool:
    return any(owner["kind"] in kinds for owner in pod["metadata"].get("ownerReferences") or ())


def _tolerates(pod: Mapping[str, Any]) -> bool:
    return any(
        each.get("effect") in (None, "", "NoSchedule")
        and (
            each.get("key") == _TAINT or (not each.get("key") and each.get("operator") == "Exists")
        )
        for each in pod["spec"].get("tolerations") or ()
    )
