"""Reading parts of objects that an API server should have typed, but may not have.

Pure. A tenant's API is the tenant's, and so is the shape of what it says. Hazard: whoever indexes a
body without these ends a worker's turn with an exception instead of an Event.
"""

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a value that is a list of such."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """Return the strings of a value that is a list of such."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """Return a value that is a number of things an API would accept, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 31 else None
