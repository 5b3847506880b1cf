"""Field paths of a SyncRule: the syntax, and the tree of fields that a list of paths describes.

Pure. A path has segments with dots in between: `spec.rules[].port`. A segment with `[]` is a list.
The last segment may be `*`, a map of plain values, or `**`, all values below. Must not know any
kind.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenancy.specs import InvalidSpecError

LeafForm = Literal["Value", "Map", "Tree"]

_NAME = re.compile(r"[A-Za-z$_][A-Za-z0-9_$-]{0,62}")
MAX_DEPTH = 16
"""Maximum number of segments of a path."""
METADATA_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
"""Top-level fields that the syncer builds itself."""


@dataclass(slots=True)
class FieldNode:
    """One field: a leaf, or an object or a list of objects with fields."""

    is_list: bool = False
    leaf: LeafForm | None = None
    fields: dict[str, "FieldNode"] = field(default_factory=dict)


def build_tree(paths: Iterable[str]) -> Mapping[str, FieldNode]:
    """Return the fields that paths describe. Raises InvalidSpecError."""
    root = FieldNode()
    for path in paths:
        _add_path(root, path)
    return root.fields


def split_path(path: str) -> list[str]:
    """Return the segments of a path. Raises InvalidSpecError."""
    parts = path.split(".")
    if len(parts) > MAX_DEPTH:
        raise InvalidSpecError(f"{path} has more than {MAX_DEPTH} segments. Name a shorter path")
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part in ("*", "**") and is_last and index > 0:
            continue
        if _NAME.fullmatch(part.removesuffix("[]")) is None:
            raise InvalidSpecError(
                f"{path} is no field path. Use names with dots in between, [] after a list, and"
                " * or ** as the last segment only"
            )
    return parts


def iterate_names(path: str) -> Iterator[str]:
    """Yield the field names of a path, without `*` and `**`."""
    for part in split_path(path):
        if part not in ("*", "**"):
            yield part.removesuffix("[]")


def iterate_places(body: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield each place of a path: the object or list, the key in it, and the path as text."""
    yield from _iterate_places(body, split_path(path), "")


def _add_path(root: FieldNode, path: str) -> None:
    parts, node = split_path(path), root
    form: LeafForm = "Value"
    if parts[-1] in ("*", "**"):
        form = "Map" if parts.pop() == "*" else "Tree"
    for index, part in enumerate(parts):
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        is_last = index == len(parts) - 1
        found = node.fields.setdefault(name, FieldNode(is_list=is_list))
        if found.leaf is not None or (is_last and found.fields) or found.is_list != is_list:
            if is_last and found.leaf == form and found.is_list == is_list:
                return  # the same path twice
            raise InvalidSpecError(
                f"{path} contradicts another path of the rule. Name each field once, always as a"
                " list or never, and not both as a leaf and with fields"
            )
        if is_last:
            found.leaf = form
        node = found


def _iterate_places(value: Any, parts: list[str], where: str) -> Iterator[tuple[Any, Any, str]]:
    part, rest = parts[0], parts[1:]
    name, is_list = part.removesuffix("[]"), part.endswith("[]")
    if not isinstance(value, dict) or value.get(name) is None:
        return
    here = f"{where}.{name}" if where else name
    inner = value[name]
    if is_list and isinstance(inner, list):
        for index, item in enumerate(inner):
            there = f"{here}[{index}]"
            if rest:
                yield from _iterate_places(item, rest, there)
            else:
                yield inner, index, there
    elif not is_list:
        if rest:
            yield from _iterate_places(inner, rest, here)
        else:
            yield value, name, here
