"""Allow-list filters for a kubelet's JSON: tables of fields, each with a reader. Pure.

A reader returns the visible part of a value, None for no part. The module must not know which
document it reads. Hazard: no reader may pass a value unchecked, and a field that no table names
must not pass. Otherwise a new field of a kubelet could show a tenant the whole node.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

MAX_TEXT = 4096
_MAX_COUNT = 2**64 - 1
_TIME_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z", re.ASCII
)

FieldReader = Callable[[Any], Any]


def read_fields(table: Mapping[str, FieldReader]) -> FieldReader:
    """Return a reader of an object with these fields. Other fields are left out."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        shown = ((name, reader(value.get(name))) for name, reader in table.items())
        return {name: found for name, found in shown if found is not None}

    return read


def read_list(reader: FieldReader) -> FieldReader:
    """Return a reader of a list. Items without a visible part are left out."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            return None
        shown = map(reader, value)
        return [found for found in shown if found is not None]

    return read


def read_count(value: Any) -> Any:
    """Return an unsigned number of 64 bits."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT
    return value if is_one else None


def read_number(value: Any) -> Any:
    """Return a signed number of 32 bits, such as an exit code."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
    return value if is_one else None


def read_bool(value: Any) -> Any:
    """Return true or false."""
    return value if isinstance(value, bool) else None


def read_text(value: Any) -> Any:
    """Return a short text in one line."""
    is_one = isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()
    return value if is_one else None


def read_time(value: Any) -> Any:
    """Return a time in UTC as Kubernetes writes it."""
    if not isinstance(value, str) or _TIME_PATTERN.fullmatch(value) is None:
        return None
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return None
    return value


def cap_count(total: int) -> int:
    """Return a sum of counts, capped at 64 bits, which JSON readers expect."""
    return min(total, _MAX_COUNT)
