"""Patches of objects, as API servers merge them. Pure.

Owns merge patches, JSON patches, the lists that strategic patches and applies merge by a key, and
the fields that an apply removes. Hazard: the owner of a field is not tracked. An apply removes the
fields that the same manager sent the last time and no longer sends, even if another client wrote
them since.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.memapi.refusals import StatusError

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
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
_SETS = frozenset({"finalizers"})
"""Lists of words that strategic patches add to."""


def merged(there: Any, patch: Any, *, by_key: bool = False) -> Any:
    """Return an object with a patch merged in. `by_key` merges known lists by item."""
    if not isinstance(patch, dict):
        return patch
    found: Object = dict(there) if isinstance(there, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif by_key and key in _KEYS and isinstance(value, list):
            found[key] = _list_merged(found.get(key) or [], value, _KEYS[key])
        elif by_key and key in _SETS and isinstance(value, list):
            before = found.get(key) or []
            found[key] = [*(word for word in value if word not in before), *before]
        else:
            found[key] = merged(found.get(key), value, by_key=by_key)
    return found


def _list_merged(there: list[Any], patch: list[Any], key: str) -> list[Any]:
    """Merge by a key. Items of the patch come first, as on servers."""
    known = {item.get(key): item for item in there}
    told = {item.get(key): item for item in patch}
    found = [
        merged(known.get(name), item, by_key=True)
        for name, item in told.items()
        if item.get("$patch") != "delete"
    ]
    return [*found, *(item for name, item in known.items() if name not in told)]


def applied(there: Any, before: Any, body: Object) -> Any:
    """Return what is there after an apply, given what its manager had applied before."""
    return merged(_without(there, before, body), body, by_key=True)


def _without(there: Any, before: Any, body: Any) -> Any:
    """Take away the leaves that `before` has and `body` has not."""
    if not (isinstance(there, dict) and isinstance(before, dict) and isinstance(body, dict)):
        return there
    found = dict(there)
    for key, value in before.items():
        if key not in found:
            continue
        if key not in body:
            rest = _without(found[key], value, {}) if isinstance(value, dict) else None
            if rest:
                found[key] = rest
            else:
                del found[key]
        elif key in _KEYS and isinstance(value, list):
            name = _KEYS[key]
            gone = {item.get(name) for item in value} - {item.get(name) for item in body[key]}
            found[key] = [item for item in found[key] if item.get(name) not in gone]
        else:
            found[key] = _without(found[key], value, body[key])
    return found


def edited(there: Object, operations: Sequence[Mapping[str, Any]]) -> Object:
    """Return an object after a JSON patch. Raises RefusedError as an API server does."""
    found = copy.deepcopy(there)
    for operation in operations:
        try:
            _edit(found, operation)
        except (KeyError, IndexError, ValueError, TypeError) as problem:
            message = f"the server rejected our request due to an error in our request: {problem}"
            raise StatusError(422, "Invalid", message) from problem
    return found


def _edit(root: Object, operation: Mapping[str, Any]) -> None:
    op, path = operation["op"], _steps(operation["path"])
    match op:
        case "test":
            try:
                is_same = _at(root, path) == operation.get("value")
            except (KeyError, IndexError):
                is_same = operation.get("value") is None
            if not is_same:
                raise ValueError(f"testing value {operation['path']} failed")
        case "remove":
            _remove(root, path)
        case "add":
            _add(root, path, operation["value"])
        case "replace":
            _put(root, path, operation["value"])  # also what is not there, as servers do
        case "move":
            value = _at(root, _steps(operation["from"]))
            _remove(root, _steps(operation["from"]))
            _add(root, path, value)
        case "copy":
            _add(root, path, copy.deepcopy(_at(root, _steps(operation["from"]))))
        case _:
            raise ValueError(f"there is no operation {op}")


def _steps(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _at(there: Any, path: Sequence[str]) -> Any:
    for step in path:
        there = there[int(step)] if isinstance(there, list) else there[step]
    return there


def _put(root: Any, path: Sequence[str], value: Any) -> None:
    there = _at(root, path[:-1])
    if isinstance(there, list):
        there[int(path[-1])] = value
    else:
        there[path[-1]] = value


def _add(root: Any, path: Sequence[str], value: Any) -> None:
    there = _at(root, path[:-1])
    if isinstance(there, list):
        at = len(there) if path[-1] == "-" else int(path[-1])
        if at > len(there):
            raise IndexError(f"{at} is beyond the list")
        there.insert(at, value)
    else:
        there[path[-1]] = value


def _remove(root: Any, path: Sequence[str]) -> None:
    there = _at(root, path[:-1])
    if isinstance(there, list):
        del there[int(path[-1])]
    else:
        del there[path[-1]]
