"""managedFields as API servers keep them: the writer of each field. Pure.

Owns their size and form, because clients skip them in each event. Hazard: ownership is not tracked.
An entry only has the fields that its manager wrote last.
"""

import json
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

_KEYED = ("name", "type", "containerPort", "port", "ip", "uid")
_NOT_TRACKED = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
    }
)


def note(body: Object, manager: str, written: Mapping[str, Any], subresource: str = "") -> None:
    """Note in an object's metadata that a manager wrote these parts of it just now."""
    metadata = body["metadata"]
    entry: Object = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": body["apiVersion"],
        "time": metadata.get("creationTimestamp"),
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(_tracked(written)),
    }
    if subresource:
        entry["subresource"] = subresource
    known = metadata.get("managedFields") or []
    kept = [
        each
        for each in known
        if each["manager"] != manager or each.get("subresource", "") != subresource
    ]
    metadata["managedFields"] = [*kept, entry]


def _tracked(written: Mapping[str, Any]) -> Object:
    found = {
        key: value
        for key, value in written.items()
        if key not in ("apiVersion", "kind", "metadata")
    }
    metadata = {
        key: value
        for key, value in (written.get("metadata") or {}).items()
        if key not in _NOT_TRACKED
    }
    return {"metadata": metadata, **found} if metadata else found


def _fields(value: Any) -> Object:
    if isinstance(value, dict):
        return {f"f:{key}": _fields(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return dict(_item(item) for item in value)
    return {}


def _item(item: Mapping[str, Any]) -> tuple[str, Object]:
    key = next((key for key in _KEYED if key in item), "")
    told = json.dumps({key: item.get(key)}, separators=(",", ":"))
    return f"k:{told}", {".": {}, **_fields(item)}
