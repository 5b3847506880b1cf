"""Differences between two bodies, as field paths for messages. Pure.

Owns the comparison of a sent body with the server's object. Must not know kinds.

Hazard: empty values (false, 0, empty) must not be reported as missing. A server leaves them out, so
objects without a difference would be reported.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kubeio import Object
from tenancy import wellknown

_LIST_MERGE_KEYS = ("name", "type", "ip", "containerPort", "key", "mountPath")
"""Fields that identify the items of a list. The first field that an item has is used."""
_SET_BY_ONE_WRITE = frozenset({"uid", "resourceVersion"})
_KEY_FIELDS = ("labels", "annotations")
HEAD_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
"""Fields that precede the content of an object."""
_SET_BY_EACH_WRITE = frozenset({"managedFields", "resourceVersion"})
"""Metadata that changes with each version. The generation is not in the set, because a status
refers to one, and neither a status update nor a binding increments it."""
_DIGEST_BYTES = 16
_MAX_SHOWN_PATHS = 3
_ABSENT = object()


def find_missing(sent: Any, there: Any) -> list[str]:
    """Return the sent leaves that the server's object does not have at all."""
    found: list[str] = []
    _compare(sent, there, "", found, changed=False)
    return found


def find_lacking(wanted: Any, there: Any) -> list[str]:
    """Return the leaves of a body or patch that the server's object lacks or has differently."""
    found: list[str] = []
    _compare(wanted, there, "", found, changed=True)
    return found


def _compare(wanted: Any, there: Any, path: str, found: list[str], *, changed: bool) -> None:
    if wanted == there:
        return
    if isinstance(wanted, dict):
        if isinstance(there, dict):
            _compare_fields(wanted, there, path, found, changed=changed)
        elif there is not None or wanted or changed:  # the server leaves out empty values
            found.append(path)
    elif isinstance(wanted, list):
        _compare_items(wanted, there, path, found, changed=changed)
    elif changed:
        found.append(path)


def _compare_fields(
    wanted: Object, there: Object, path: str, found: list[str], *, changed: bool
) -> None:
    for key, value in wanted.items():
        where = f"{path}.{key}" if path else str(key)
        if (not path or path.startswith("metadata")) and _is_bookkeeping(where):
            continue
        if key in there:
            _compare(value, there[key], where, found, changed=changed)
        elif isinstance(value, dict) and value:
            _compare(value, {}, where, found, changed=changed)
        elif not _is_empty(value):
            found.append(where)


def _compare_items(
    wanted: list[Any], there: Any, path: str, found: list[str], *, changed: bool
) -> None:
    if not isinstance(there, list):
        found.append(path)
        return
    for index, item in enumerate(wanted):
        name, field = _identify_item(item)
        if field:
            where = f"{path}[{name}]"
            likely = there[index : index + 1]  # several items may have one name
            twin = next(
                (other for other in (*likely, *there) if _has_same(other, field, name)), _ABSENT
            )
        else:
            where = f"{path}[{index}]"
            twin = there[index] if index < len(there) else _ABSENT
        if twin is _ABSENT:
            found.append(where)
        else:
            _compare(item, twin, where, found, changed=changed)


def _identify_item(item: Any) -> tuple[Any, str]:
    if isinstance(item, dict):
        for field in _LIST_MERGE_KEYS:
            if isinstance(item.get(field), str | int):
                return item[field], field
    return "", ""


def _has_same(other: Any, field: str, name: Any) -> bool:
    return isinstance(other, dict) and other.get(field) == name


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", 0) or value in ([], {})


def _is_bookkeeping(path: str) -> bool:
    section, _, key = path.partition(".")
    return path in ("apiVersion", "kind") or (
        section == "metadata"
        and (key in _SET_BY_ONE_WRITE or key == f"annotations.{wellknown.STORE_REVISION}")
    )


def is_result_of_patch(before: Object, patch: Object, answer: Object) -> bool:
    """Return whether an answer equals the earlier object plus a merge patch, and nothing else.

    The answer to a write that changed nothing can have the version of another writer's change that
    the cache has not received yet.
    """
    wanted = apply_merge_patch(before, patch)
    return all(
        wanted.get(field) == answer.get(field)
        for field in (wanted.keys() | answer.keys()) - HEAD_FIELDS
    ) and _strip_version(wanted["metadata"]) == _strip_version(answer["metadata"])


def apply_merge_patch(there: Any, patch: Any) -> Any:
    """Return the result of a JSON merge patch (RFC 7386) on a value."""
    if not isinstance(patch, dict):
        return patch
    found = dict(there) if isinstance(there, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = apply_merge_patch(found.get(key), value)
    return found


def _strip_version(metadata: Object) -> Object:
    return {key: value for key, value in metadata.items() if key not in _SET_BY_EACH_WRITE}


def compute_digest(body: Mapping[str, Any], before: Mapping[str, Any]) -> bytes:
    """Return a digest of a difference: the body to send and the object that it is sent to.

    Only the fields of the object that the body has are included. The version and timestamps of the
    object are not.
    """
    metadata = before.get("metadata") or {}
    there = {key: before.get(key) for key in body if key not in HEAD_FIELDS}
    there["metadata"] = {key: metadata.get(key) for key in _KEY_FIELDS}
    plain = [_strip_bookkeeping(side, "") for side in (body, there)]
    text = orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


def _strip_bookkeeping(value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        return value
    found = {}
    for key, inner in value.items():
        where = f"{path}.{key}" if path else str(key)
        if not _is_bookkeeping(where):
            deeper = where in ("metadata", "metadata.annotations")
            plain = _strip_bookkeeping(inner, where) if deeper else inner
            if plain or not deeper:
                found[key] = plain
    return found


def find_written_paths(body: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the leaves that a write sets. If it sets none, return the leaves that it removes."""
    found = find_lacking(body, before)
    there = {key: before[key] for key in body if key in before and key not in HEAD_FIELDS}
    said, metadata = body.get("metadata") or {}, before.get("metadata") or {}
    there["metadata"] = {key: metadata.get(key) or {} for key in _KEY_FIELDS if key in said}
    return found or find_lacking(there, body)


def format_paths(paths: Sequence[str]) -> str:
    """Return paths as text for a message."""
    shown = ", ".join(paths[:_MAX_SHOWN_PATHS])
    rest = len(paths) - _MAX_SHOWN_PATHS
    return f"{shown} and {rest} more" if rest > 0 else shown
