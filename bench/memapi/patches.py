"""Patches of objects, as API servers merge them; pure.

Owns merge patches and the lists that strategic patches and applies merge by a key. Hazard: an
apply here never takes away what a manager no longer sends; who measures that needs a real server.
"""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "volumes": "name",
}


def merged(there: Any, patch: Any, *, by_key: bool = False) -> Any:
    """Return what is there with a patch merged in; `by_key` merges known lists by item."""
    if not isinstance(patch, dict):
        return patch
    found: Object = dict(there) if isinstance(there, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif by_key and key in _KEYS and isinstance(value, list):
            found[key] = _list_merged(found.get(key) or [], value, _KEYS[key])
        else:
            found[key] = merged(found.get(key), value, by_key=by_key)
    return found


def _list_merged(there: list[Any], patch: list[Any], key: str) -> list[Any]:
    found = {item.get(key): item for item in there}
    for item in patch:
        if item.get("$patch") == "delete":
            found.pop(item.get(key), None)
        else:
            found[item.get(key)] = merged(found.get(item.get(key)), item, by_key=True)
    return list(found.values())
