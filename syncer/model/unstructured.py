"""Type checks for parts of objects that an API server may not have typed.

Pure. The tenant admin controls the tenant's API, and so the shape of its objects.

Hazard: code that indexes a body must use these functions. Otherwise a worker fails with an
exception instead of an Event.
"""

from collections.abc import Mapping
from typing import Any


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a value, if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_strings(value: Any) -> list[str]:
    """Return the strings in a value, if it is a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """Return a value if an API would accept it as a count, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 31 else None
