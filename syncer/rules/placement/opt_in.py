"""Elected pods: pods that may run in targets whose grant admits only elected pods.

Pure. A pod is elected by an annotation, in a namespace with a label. Admiralty's keys are accepted
as well, so that manifests for Admiralty work unchanged (admiralty.io/docs/quick_start).
"""

from collections.abc import Mapping
from typing import Any

from syncer.model.unstructured import as_mapping
from tenancy import wellknown

ENABLED = "enabled"
_NAMESPACE_LABELS = (wellknown.ELECT, "multicluster-scheduler")
_POD_ANNOTATIONS = (wellknown.ELECT, "multicluster.admiralty.io/elect")


def has_opted_in(pod: Mapping[str, Any], namespace_labels: Mapping[str, str]) -> bool:
    """Return whether a pod is elected. The annotation may have any value."""
    if not any(namespace_labels.get(key) == ENABLED for key in _NAMESPACE_LABELS):
        return False
    annotations = as_mapping(as_mapping(pod.get("metadata")).get("annotations"))
    return any(key in annotations for key in _POD_ANNOTATIONS)
