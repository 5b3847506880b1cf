"""Size limits of pods, as written and as rendered.

Pure. Owns the limits and their messages. Must not know how anything is rendered.

Hazard: every pod must be checked against the limits. Without a limit, one pod of one tenant would
delay all other tenants.
"""

from collections.abc import Collection, Mapping
from typing import Any

from syncer.model.rejections import RejectionProblem
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.configuration import service_variables

MAX_LIST_ITEMS = 20_000
"""Maximum number of containers, variables, mounts, volumes, items, tolerations and terms of a pod
together."""
MAX_REFERENCES = 2000
"""Maximum number of objects that a pod names. Each missing object is fetched separately."""
MAX_COMPARED_TERMS = 100_000
"""Maximum number of affinity terms, times the namespaces of the tenant."""


def check_written_size(spec: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a problem when a PodSpec, walked by its table, has too many parts."""
    count = _count_list_items(spec)
    if count <= MAX_LIST_ITEMS:
        return []
    return [
        _build_problem(f"has {count} parts, and the limit is {MAX_LIST_ITEMS}. Use several pods")
    ]


def _count_list_items(value: Any) -> int:
    """Return the total number of items in all lists of a body."""
    if isinstance(value, dict):
        return sum(
            _count_list_items(inner) for inner in value.values() if isinstance(inner, dict | list)
        )
    return len(value) + sum(
        _count_list_items(inner) for inner in value if isinstance(inner, dict | list)
    )


def check_reference_count(count: int) -> list[RejectionProblem]:
    """Return a problem when a pod names too many objects."""
    if count <= MAX_REFERENCES:
        return []
    text = f"names {count} objects, and the limit is {MAX_REFERENCES}. Use fewer"
    return [_build_problem(text)]


def check_affinity_size(terms: int, namespaces: int) -> list[RejectionProblem]:
    """Return a problem when the affinity needs too many comparisons with namespaces."""
    if terms * namespaces <= MAX_COMPARED_TERMS:
        return []
    text = f"has {terms} terms of affinity to compare with {namespaces} namespaces. Use fewer"
    return [_build_problem(text)]


def check_memory_volumes(spec: Mapping[str, Any], quota: Collection[str]) -> list[RejectionProblem]:
    """Return a problem for each volume in memory that no limit bounds, where memory is limited.

    Its contents count as memory of the container that writes them, and no request covers them.
    With a quota of `limits.memory` each container has a limit.
    """
    if not {"memory", "requests.memory"} & set(quota) or "limits.memory" in quota:
        return []
    containers = [
        *as_mappings(spec.get("containers")),
        *as_mappings(spec.get("initContainers")),
    ]
    whole = as_mapping(as_mapping(spec.get("resources")).get("limits"))
    if "memory" in whole or all(
        "memory" in as_mapping(as_mapping(each.get("resources")).get("limits"))
        for each in containers
    ):
        return []
    text = (
        "is in memory without a limit, and memory is limited by your quota. Set sizeLimit, or a"
        " memory limit for each container"
    )
    return [
        RejectionProblem("memory-volume", f"spec.volumes[{index}].emptyDir", text)
        for index, volume in enumerate(as_mappings(spec.get("volumes")))
        if as_mapping(volume.get("emptyDir")).get("medium") == "Memory"
        and not volume["emptyDir"].get("sizeLimit")
    ]


def check_variables_size(size: int) -> list[RejectionProblem]:
    """Return a problem when the service variables of a pod have too many bytes."""
    if size <= service_variables.MAX_VARIABLE_BYTES:
        return []
    text = (
        f"comes to {size} bytes of variables of Services, and the limit is"
        f" {service_variables.MAX_VARIABLE_BYTES}. Set enableServiceLinks to false, or use fewer"
        " Services in the namespace"
    )
    return [_build_problem(text)]


def _build_problem(text: str) -> RejectionProblem:
    return RejectionProblem("too-large", "spec", text)
