"""Size limits of pods, as written and as rendered.

Pure. Owns the limits and their messages. Must not know how anything is rendered.

Hazard: every pod must be checked against the limits. A pod of a few kilobytes can grow to a hundred
megabytes in the super cluster, because each container gets the variables of each Service. Without a
limit, one pod of one tenant would delay all other tenants.
"""

from collections.abc import Mapping
from typing import Any

from syncer.model.rejections import RejectedError, RejectionProblem

MAX_LIST_ITEMS = 20_000
"""Maximum number of containers, variables, mounts, volumes, items, tolerations and terms of a pod
together."""
MAX_REFERENCES = 2000
"""Maximum number of objects that a pod names. Each missing object is fetched separately."""
MAX_VARIABLES = 25_000
"""Maximum number of variables that the containers get from Services and `envFrom` sources together.

No API server accepts an object with more. Each variable is some 60 bytes of the 1.5 MB that etcd
accepts."""
MAX_COMPARED_TERMS = 100_000
"""Maximum number of affinity terms, times the namespaces of the tenant."""


def check_written_size(spec: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a problem when a PodSpec, walked by its table, has too many parts."""
    count = _count_list_items(spec)
    if count <= MAX_LIST_ITEMS:
        return []
    return [
        _build_problem(f"has {count} parts, and {MAX_LIST_ITEMS} are carried; use several pods")
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
    text = f"names {count} objects, and {MAX_REFERENCES} are carried; name fewer"
    return [_build_problem(text)]


def check_affinity_size(terms: int, namespaces: int) -> list[RejectionProblem]:
    """Return a problem when the affinity needs too many comparisons with namespaces."""
    if terms * namespaces <= MAX_COMPARED_TERMS:
        return []
    text = f"has {terms} terms of affinity to compare with {namespaces} namespaces; use fewer"
    return [_build_problem(text)]


class EnvironmentBudget:
    """Remaining number of variables. Raises RejectedError when it is used up."""

    def __init__(self) -> None:
        self._variables = MAX_VARIABLES

    def take_variables(self, count: int) -> None:
        """Subtract a number of variables before they are written."""
        self._variables -= count
        if self._variables < 0:
            raise RejectedError(
                _build_problem(
                    f"comes to more than {MAX_VARIABLES} variables of Services and envFrom sources;"
                    " set enableServiceLinks to false, or use fewer containers or sources"
                )
            )


def _build_problem(text: str) -> RejectionProblem:
    return RejectionProblem("too-large", "spec", text)
