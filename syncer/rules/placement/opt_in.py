"""Which pods are elected: those that may go where a grant takes the elected alone.

Pure. A pod is elected by an annotation, in a namespace with a label. Admiralty's keys count as
ours, so that what was written for it is taken as it stands (admiralty.io/docs/quick_start).
"""

from collections.abc import Mapping
from typing import Any

from syncer.model.unstructured import mapping
from tenancy import wellknown

ENABLED = "enabled"
_OF_NAMESPACES = (wellknown.ELECT, "multicluster-scheduler")
_OF_PODS = (wellknown.ELECT, "multicluster.admiralty.io/elect")


def is_elected(pod: Mapping[str, Any], namespace_labels: Mapping[str, str]) -> bool:
    """Tell whether a pod is elected; the annotation may have any value."""
    if not any(namespace_labels.get(key) == ENABLED for key in _OF_NAMESPACES):
        return False
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    return any(key in annotations for key in _OF_PODS)
