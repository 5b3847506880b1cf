"""Annotations of super pods that autoscalers of nodes read.

Pure. Owns the choice for each pod, from its controller, the tenant's own annotations and the
policy. Must not know autoscalers beyond their keys.

The super pod's controller is a Namespace. cluster-autoscaler refuses by default to remove a node
with a pod of such a controller, unless the pod is marked as safe to evict. Karpenter reads no mark
of that kind, and evicts each pod that does not forbid it.
https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/simulator/drainability/rules
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.0/pkg/utils/pod/scheduling.go

Hazard: a tenant must keep no node of the super cluster without permission. Otherwise one
annotation costs the platform administrator a node for as long as the pod runs.
"""

import re
from collections.abc import Mapping
from typing import Any

from syncer.model import object_meta
from syncer.model.rejections import RejectionProblem
from syncer.model.unstructured import as_mapping
from tenancy.policies import TenantPolicySpec

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DAEMON_SET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
"""Marks a pod that needs no place on another node. Its super pod has no DaemonSet as an owner."""
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"

_TRUE = "true"
_BLOCKING_VALUES = {
    DO_NOT_DISRUPT: re.compile(r"true|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+"),
    SAFE_TO_EVICT: re.compile("false"),
}
"""Values by which a pod keeps its node. Karpenter also reads a duration since the pod's start."""
_MAX_VALUE_CHARACTERS = 64
_RULE = "autoscaler-annotation"


def build_annotations(metadata: Mapping[str, Any], policy: TenantPolicySpec) -> dict[str, str]:
    """Return the annotations for autoscalers of the super pod of a pod with this metadata."""
    own = _read_own(metadata, policy)
    allows_blocking = policy.pods.autoscaling.blocking_annotations == "Allow"
    found = {key: value for key, value in own.items() if allows_blocking and _blocks(key, value)}
    controller = object_meta.get_controller(metadata)
    if SAFE_TO_EVICT not in found and (
        own.get(SAFE_TO_EVICT) == _TRUE or _is_evictable(controller, policy)
    ):
        found[SAFE_TO_EVICT] = _TRUE
    added = policy.pods.autoscaling.safe_to_evict != "Tenant"
    if added and controller is not None and controller.get("kind") == "DaemonSet":
        found[DAEMON_SET_POD] = _TRUE
    return found


def find_left_out(metadata: Mapping[str, Any], policy: TenantPolicySpec) -> list[RejectionProblem]:
    """Return a notice for each annotation by which the pod would keep its node, and may not."""
    if policy.pods.autoscaling.blocking_annotations == "Allow":
        return []
    text = (
        "would keep a node that an autoscaler wants to remove, and is left out. Use a"
        " PodDisruptionBudget, or ask your platform administrator to set"
        " spec.pods.autoscaling.blockingAnnotations of the TenantPolicy"
    )
    return [
        RejectionProblem(_RULE, f"metadata.annotations[{key}]", text)
        for key, value in sorted(_read_own(metadata, policy).items())
        if _blocks(key, value)
    ]


def _read_own(metadata: Mapping[str, Any], policy: TenantPolicySpec) -> dict[str, str]:
    """Return the tenant's annotations for autoscalers that the policy does not list by their key.

    A listed annotation is synced like any other, with the value that the tenant wrote.
    """
    annotations = as_mapping(metadata.get("annotations"))
    return {
        key: str(annotations[key])
        for key in _BLOCKING_VALUES
        if key in annotations and not object_meta.is_annotation_synced("Pod", key, policy.metadata)
    }


def _blocks(key: str, value: str) -> bool:
    if len(value) > _MAX_VALUE_CHARACTERS:
        return False
    return _BLOCKING_VALUES[key].fullmatch(value) is not None


def _is_evictable(controller: Mapping[str, Any] | None, policy: TenantPolicySpec) -> bool:
    """Return whether the policy makes the pod evictable. A controller creates a replacement."""
    mode = policy.pods.autoscaling.safe_to_evict
    return mode == "All" or (mode == "Controlled" and controller is not None)
