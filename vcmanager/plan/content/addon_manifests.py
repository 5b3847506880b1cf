"""Manifests of `spec.addons`: from the text of a ConfigMap to objects in the order of their apply.

Pure. Owns the limits on size and form. Must not know which kinds a tenant serves. Hazard: the text
is written by users and is parsed in the process of all tenants. It must be small, and its aliases
must not expand to gigabytes.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from kubeio import Object

MAX_BYTES = 256 * 1024
"""Maximum size in bytes of the manifests of one ConfigMap."""
MAX_OBJECTS = 100
"""Maximum number of objects of one ConfigMap."""
_MAX_DEPTH = 64
_DEFAULT_NAMESPACE = "default"
_MAX_SHOWN_CHARACTERS = 200
_FORMS = {
    "apiVersion": re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?v[a-z0-9]{1,30}"),
    "kind": re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}"),
}
"""Fields of which a path of the API is made."""
_ORDER: Mapping[str, int] = {"Namespace": 0, "CustomResourceDefinition": 1}
"""Kinds that other objects need. All others follow in the order of the text."""


class AddonObject(NamedTuple):
    """One object of a manifest."""

    place: str
    """ConfigMap, key and number of the document, for messages."""
    body: Object

    @property
    def title(self) -> str:
        """Return the place and the object, for messages."""
        metadata = self.body["metadata"]
        name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        return f"{self.place}: {self.body['kind']} {name}"


class ParsedAddon(NamedTuple):
    """The objects of a ConfigMap, or the reasons why it has none. It never has a part of them."""

    objects: tuple[AddonObject, ...]
    problems: tuple[str, ...]


def compute_digest(config_map: Mapping[str, Any]) -> str:
    """Return the digest of the manifests of a ConfigMap."""
    data = json.dumps(config_map.get("data") or {}, sort_keys=True).encode(errors="replace")
    return hashlib.sha256(data).hexdigest()[:32]


def compute_object_digest(body: Object) -> str:
    """Return the digest of one object of a manifest."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode(errors="replace")).hexdigest()[
        :16
    ]


def parse_manifests(config_map: Mapping[str, Any]) -> ParsedAddon:
    """Return the objects of a ConfigMap, in the order in which they are applied."""
    name, data = config_map["metadata"]["name"], config_map.get("data") or {}
    title = f"ConfigMap {name}"
    size = sum(len(text.encode(errors="replace")) for text in data.values())
    if size > MAX_BYTES:
        problem = f"{title} has {size} bytes, and the limit is {MAX_BYTES}. Split it."
        return ParsedAddon((), (problem,))
    objects: list[AddonObject] = []
    problems: list[str] = []
    for key in sorted(data):
        for place, found in _iterate_documents(f"{title}, {key}", data[key]):
            problem = found if isinstance(found, str) else _find_problem(found)
            if problem:
                problems.append(f"{place}: {problem}.")
            elif isinstance(found, dict):
                objects.append(AddonObject(place, _fill_in(found)))
    if not objects and not problems:
        problems.append(f"{title} has no manifests. Add them as YAML under keys of data.")
    if len(objects) > MAX_OBJECTS:
        problems.append(f"{title} has more than {MAX_OBJECTS} objects. Split it.")
    ordered = sorted(objects, key=lambda each: _ORDER.get(each.body["kind"], len(_ORDER)))
    return ParsedAddon(() if problems else tuple(ordered), tuple(problems))


def _iterate_documents(place: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each document that is not empty. A problem is a text."""
    try:
        problem = _find_form_problem(text)
        if problem:
            yield place, problem
            return
        for number, found in enumerate(yaml.load_all(text, Loader=yaml.CSafeLoader), 1):
            if found is not None:
                yield f"{place}, document {number}", found if isinstance(found, dict) else []
    except (yaml.YAMLError, RecursionError, ValueError) as refusal:
        said = " ".join(str(refusal).split())[:_MAX_SHOWN_CHARACTERS]
        yield place, f"is no YAML ({said}). Correct it"


def _find_form_problem(text: str) -> str:
    """Return why a text may not be loaded, as the rest of a sentence.

    The loader calls itself for each level, and a text of many levels would end the process.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            return "has an alias. Write the value out"
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            return f"has more than {_MAX_DEPTH} levels. Make it flatter"
    return ""


def _find_problem(found: Any) -> str:
    """Return why a document is no object, as the rest of a sentence."""
    if not isinstance(found, dict):
        return "is not an object. Write apiVersion, kind and metadata"
    for field, form in _FORMS.items():
        if not isinstance(found.get(field), str) or not found[field]:
            return f"{field} is missing. Add it"
        if form.fullmatch(found[field]) is None:
            return f"{field} is not valid. Correct it"
    if found["kind"].endswith("List") and "items" in found:
        return "is a list. Write its items as documents"
    return _find_name_problem(found.get("metadata")) or _find_value_problem(found)


def _find_name_problem(metadata: Any) -> str:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return "metadata.name is missing. Add it"
    if not metadata["name"] or not isinstance(metadata.get("namespace", ""), str):
        return "metadata.name or metadata.namespace is not a name. Correct it"
    return ""


def _find_value_problem(found: Object) -> str:
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError) as refusal:  # dates, bytes and numbers that JSON does not have
        return f"has a value that JSON does not have ({refusal}). Write it as a text in quotes"
    return ""


def _fill_in(found: Object) -> Object:
    """Return an object without the fields that only an API server sets."""
    metadata = {
        key: value
        for key, value in found["metadata"].items()
        if key not in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation")
    }
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}


def place_object(body: Object, *, is_namespaced: bool) -> Object:
    """Return an object with a namespace if its kind has one, and without one otherwise."""
    metadata = dict(body["metadata"])
    if is_namespaced:
        metadata["namespace"] = metadata.get("namespace") or _DEFAULT_NAMESPACE
    else:
        metadata.pop("namespace", None)
    return {**body, "metadata": metadata}
