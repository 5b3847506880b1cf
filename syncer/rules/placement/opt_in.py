"""Elected pods: pods that may run in targets whose grant admits only elected pods.

Pure. A pod is elected by an annotation, in a namespace with a label. Admiralty's keys are accepted
as well, so that manifests for Admiralty work unchanged (admiralty.io/docs/quick_start).
"""

from collections.abc import Mapping
from typing import Any

from syncer.model.unstructured import mapping
from tenancy import wellknown

ENABLED = "enabled"
_OF_NAMESPACES = (wellknown.ELECT, "multicluster-scheduler")
_OF_PODS = (wellknown.ELECT, "multicluster.admiralty.io/elect")


def is_elected(pod: Mapping[str, Any], namespace_labels: Mapping[str, str]) -> bool:
    """Return whether a pod is elected. The annotation may have any value."""
    if not any(namespace_labels.get(key) == ENABLED for key in _OF_NAMESPACES):
        return False
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    return any(key in annotations for key in _OF_PODS)
