"""Differences between two versions of a CustomResourceDefinition, by the rule of ADR 0043.

Pure. Must not know where the definitions come from.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_KEPT = ("type", "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "format")
"""Words of a schema that must stay as they are."""
_LOWER_BOUNDS = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")


def list_fields(definition: Schema) -> set[str]:
    """Return the paths of all fields of all versions, such as `v1alpha1.spec.dns`."""
    return {path for version in _list_versions(definition) for path, _ in _walk(*version)}


def find_breaks(old: Schema, new: Schema) -> list[str]:
    """Return why objects of the old definition, or clients of it, may fail with the new one."""
    found = []
    versions = {each["name"]: each for each in new["spec"]["versions"]}
    for version in old["spec"]["versions"]:
        name = version["name"]
        if version["served"] and not versions.get(name, {}).get("served"):
            found.append(f"{name}: no longer served")
            continue
        if version["storage"] and not versions[name]["storage"]:
            found.append(f"{name}: no longer stored. Objects need a migration first")
        before = dict(_walk(name, version["schema"]["openAPIV3Schema"]))
        after = dict(_walk(name, versions[name]["schema"]["openAPIV3Schema"]))
        for path, node in before.items():
            if path not in after:
                found.append(f"{path}: removed")
            else:
                found += [f"{path}: {fault}" for fault in _compare(node, after[path])]
    return sorted(found)


def _compare(old: Schema, new: Schema) -> Iterator[str]:
    for word in _KEPT:
        if word == "default" and word not in old:
            continue  # the schema may show the value that the program used before
        if old.get(word) != new.get(word):
            yield f"{word} changed from {old.get(word)} to {new.get(word)}"
    for name in sorted(set(new.get("required") or ()) - set(old.get("required") or ())):
        # A new object with required fields may be added as a whole.
        yield f"{name} is now required"
    if "enum" in new and (missing := sorted(set(old.get("enum") or ["any"]) - set(new["enum"]))):
        yield f"enum no longer has {', '.join(map(str, missing))}"
    for bounds, is_tighter in ((_LOWER_BOUNDS, _is_higher), (_UPPER_BOUNDS, _is_lower)):
        for word in bounds:
            if word in new and (word not in old or is_tighter(new[word], old[word])):
                yield f"{word} is tighter"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield "pattern changed"
    if old.get("x-kubernetes-preserve-unknown-fields") and not new.get(
        "x-kubernetes-preserve-unknown-fields"
    ):
        yield "unknown fields are no longer kept"


def _is_higher(new: float, old: float) -> bool:
    return new > old


def _is_lower(new: float, old: float) -> bool:
    return new < old


def _list_versions(definition: Schema) -> Iterator[tuple[str, Schema]]:
    for version in definition["spec"]["versions"]:
        yield version["name"], version["schema"]["openAPIV3Schema"]


def _walk(path: str, node: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, node
    for name, inside in (node.get("properties") or {}).items():
        yield from _walk(f"{path}.{name}", inside)
    for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(word), Mapping):
            yield from _walk(f"{path}{mark}", node[word])
