"""Field managers of a tenant object: whether another writer than the syncer set a field.

Pure. API servers record in `metadata.managedFields` which manager set which field last. The caches
leave that out, so the caller reads the object live. Must not know kinds.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from syncer.model.unstructured import as_mapping, as_mappings

_SEGMENT = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_METADATA_MAP = re.compile(r"metadata\.(labels|annotations)\.(.+)")


def is_set_by_other(metadata: Mapping[str, Any], paths: Iterable[str], manager: str) -> bool:
    """Return whether any of these fields was set by another manager than the given one.

    `paths` are those of `syncer.model.diff`, such as `status.conditions[Ready].status`. A field
    that another manager removed has no record.
    """
    others = [
        as_mapping(entry.get("fieldsV1"))
        for entry in as_mappings(metadata.get("managedFields"))
        if entry.get("manager") != manager
    ]
    segments = [_split_path(path) for path in paths]
    return any(_has_path(fields, path) for fields in others if fields for path in segments)


def _split_path(path: str) -> list[tuple[str, bool]]:
    """Return the segments of a path, each with whether it names an item of a list."""
    found = _METADATA_MAP.fullmatch(path)
    if found is not None:  # keys of labels and annotations have dots
        return [("metadata", False), (found[1], False), (found[2], False)]
    return [(name or item, not name) for name, item in _SEGMENT.findall(path)]


def _has_path(fields: Mapping[str, Any], path: list[tuple[str, bool]]) -> bool:
    for name, is_item in path:
        if not fields or set(fields) == {"."}:
            return True  # the manager set this field as a whole
        inner = _find_item(fields, name) if is_item else fields.get(f"f:{name}")
        if not isinstance(inner, Mapping):
            return False
        fields = inner
    return True


def _find_item(fields: Mapping[str, Any], name: str) -> Any:
    for key, inner in fields.items():
        if key.startswith("k:") and name in _list_key_values(key):
            return inner
    return None


def _list_key_values(key: str) -> list[str]:
    try:
        found = json.loads(key.removeprefix("k:"))
    except ValueError:
        return []
    return [str(value) for value in found.values()] if isinstance(found, dict) else []
