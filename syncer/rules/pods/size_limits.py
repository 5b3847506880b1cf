"""How large a pod may be, as it is written and as it is rendered.

Pure. Owns the limits and the sentences about them. Must not know how anything is rendered. Hazard:
a pod of a few kilobytes can come to a hundred megabytes below, as each container gets the variables
of each Service; without a limit, one pod of one tenant would keep all others waiting.
"""

from collections.abc import Mapping
from typing import Any

from syncer.model.rejections import Problem, RejectedError

MAX_PARTS = 20_000
"""Containers, variables, mounts, volumes, items, tolerations and terms of a pod together."""
MAX_REFERENCES = 2000
"""Objects that a pod names; each that is not there is looked for by itself."""
MAX_VARIABLES = 25_000
"""Variables that its containers get of Services and `envFrom` sources together.

No API server takes an object with more: each is some sixty bytes of the 1.5 MB that etcd takes.
"""
MAX_COMPARED = 100_000
"""Terms of its affinity, times the namespaces of the tenant."""


def written(spec: Mapping[str, Any]) -> list[Problem]:
    """Return a problem when a PodSpec, walked by its table, has more than is looked at."""
    count = _parts(spec)
    if count <= MAX_PARTS:
        return []
    return [_problem(f"has {count} parts, and {MAX_PARTS} are carried; use several pods")]


def _parts(value: Any) -> int:
    """Return how many items all lists of a body have together."""
    if isinstance(value, dict):
        return sum(_parts(inner) for inner in value.values() if isinstance(inner, dict | list))
    return len(value) + sum(_parts(inner) for inner in value if isinstance(inner, dict | list))


def references(count: int) -> list[Problem]:
    """Return a problem when a pod names more objects than are looked for."""
    if count <= MAX_REFERENCES:
        return []
    text = f"names {count} objects, and {MAX_REFERENCES} are carried; name fewer"
    return [_problem(text)]


def compared(terms: int, namespaces: int) -> list[Problem]:
    """Return a problem when its affinity is more than is compared with the tenant's namespaces."""
    if terms * namespaces <= MAX_COMPARED:
        return []
    text = f"has {terms} terms of affinity to compare with {namespaces} namespaces; use fewer"
    return [_problem(text)]


class Left:
    """How many variables may still be written; raises RejectedError when they are used up."""

    def __init__(self) -> None:
        self._variables = MAX_VARIABLES

    def take(self, count: int) -> None:
        """Take so many variables off, before they are written."""
        self._variables -= count
        if self._variables < 0:
            raise RejectedError(
                _problem(
                    f"comes to more than {MAX_VARIABLES} variables of Services and envFrom sources;"
                    " set enableServiceLinks to false, or use fewer containers or sources"
                )
            )


def _problem(text: str) -> Problem:
    return Problem("too-large", "spec", text)
