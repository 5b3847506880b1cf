"""Fields of the CRDs, and the bad values that follow from each word of their schemas.

A field whose schema has a type, an enumeration or a limit needs no row by hand. The API server
refuses the value that is built here in its own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.support.bad_fields.rows import BadField
from tests.support.bad_fields.valid_specs import VALID_SPECS

CRDS = Path("charts/virtual-cluster/files/crds")
_STEP = re.compile(r"[A-Za-z0-9]+|\[\]|\{key\}|\{\}")
_TYPES: Mapping[str, tuple[Any, str]] = {
    "string": (7, 'must be of type string: "integer"'),
    "integer": ("many", 'must be of type integer: "string"'),
    "boolean": ("maybe", 'must be of type boolean: "string"'),
    "object": ("nothing", 'must be of type object: "string"'),
    "array": ("nothing", 'must be of type array: "string"'),
    "": (True, "must be of type"),
}
"""A value of another type, and the words of the API server. The empty key is int or string."""


class SchemaField(NamedTuple):
    """One field below the spec of a kind."""

    kind: str
    path: str
    schema: Mapping[str, Any]

    @property
    def is_leaf(self) -> bool:
        """Return whether it has a value of its own."""
        return not {"properties", "items", "additionalProperties"} & self.schema.keys()

    @property
    def is_decided_by_type(self) -> bool:
        """Return whether its type or its enumeration leaves no value that a program must judge."""
        return "enum" in self.schema or self.schema.get("type") in ("boolean", "integer")


@cache
def list_fields() -> tuple[SchemaField, ...]:
    """Return all fields of the specs of all kinds, with the keys of maps."""
    found: list[SchemaField] = []
    for path in sorted(CRDS.glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        kind = body["spec"]["names"]["kind"]
        (version,) = body["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        found += _iterate_fields(kind, "spec", spec)
    return tuple(found)


def _iterate_fields(kind: str, path: str, schema: Mapping[str, Any]) -> Iterator[SchemaField]:
    yield SchemaField(kind, path, schema)
    for name, inside in (schema.get("properties") or {}).items():
        yield from _iterate_fields(kind, f"{path}.{name}", inside)
    if "items" in schema:
        yield from _iterate_fields(kind, f"{path}[]", schema["items"])
    if "additionalProperties" in schema:
        yield SchemaField(kind, f"{path}{{key}}", {"type": "key"})
        yield from _iterate_fields(kind, f"{path}{{}}", schema["additionalProperties"])


def list_rule_messages() -> list[tuple[str, str]]:
    """Return the kind and the message of each validation rule of a spec."""
    return [
        (field.kind, rule["message"])
        for field in list_fields()
        for rule in field.schema.get("x-kubernetes-validations") or ()
    ]


def build_schema_rows(kind: str) -> list[BadField]:
    """Return a bad value for each word of the schema that the API server checks itself."""
    return [
        BadField(kind, field.path, value, sentence)
        for field in list_fields()
        if field.kind == kind and not field.path.endswith("{key}")
        for value, sentence in _iterate_bad_values(field.schema)
    ]


def _iterate_bad_values(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    yield _TYPES[schema.get("type", "")]
    if "enum" in schema:
        listed = ", ".join(f'"{each}"' for each in schema["enum"])
        is_number = isinstance(schema["enum"][0], int)
        yield 99 if is_number else "Nonsense", f"supported values: {listed}"
    if "minimum" in schema:
        yield schema["minimum"] - 1, f"should be greater than or equal to {schema['minimum']}"
    if "maximum" in schema:
        yield schema["maximum"] + 1, f"should be less than or equal to {schema['maximum']}"
    if schema.get("minLength"):
        yield "a" * (schema["minLength"] - 1), f"at least {schema['minLength']} chars long"
    if "maxLength" in schema:
        text = "a" if schema.get("type") == "string" else "1"
        yield text * (schema["maxLength"] + 1), f"may not be more than {schema['maxLength']}"
    if "minItems" in schema:
        yield [], f"should have at least {schema['minItems']} items"


def build_missing_rows(kind: str) -> list[BadField]:
    """Return a row for each required field of each object. The value is the object without it."""
    return [
        BadField(
            kind, field.path, _drop(get_value(kind, field.path), name), f".{name}: Required value"
        )
        for field in list_fields()
        if field.kind == kind
        for name in field.schema.get("required") or ()
    ]


def _drop(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key != name}


def get_value(kind: str, path: str) -> Any:
    """Return the value of a field in the first valid spec that has the field."""
    return _find_place(kind, path)[1]


def get_spec(kind: str, path: str) -> dict[str, Any]:
    """Return the first valid spec that has a field."""
    return _find_place(kind, path)[0]


def build_spec(kind: str, path: str, value: Any) -> dict[str, Any]:
    """Return a valid spec with one other value."""
    # Unlike a deep copy, this has no part twice.
    spec = json.loads(json.dumps(get_spec(kind, path)))
    *parents, last = _list_steps(path)
    body: Any = {"spec": spec}
    if last == "{key}":
        *parents, last = parents
        value = {value: next(iter(get_value(kind, path.removesuffix("{key}")).values()))}
    for step in parents:
        body = body[_resolve(body, step)]
    body[_resolve(body, last)] = value
    changed: dict[str, Any] = spec if path != "spec" else value
    return changed


def describe_place(path: str) -> str:
    """Return the begin of a path as an API server writes it, up to the first map."""
    return path.partition("{")[0].replace("[]", "[0]")


def _list_steps(path: str) -> list[str]:
    return _STEP.findall(path)


def _resolve(body: Any, step: str) -> Any:
    """Return the key or index of a step: the first one of a list or a map."""
    if step == "[]":
        return 0
    return next(iter(body)) if step == "{}" else step


def _find_place(kind: str, path: str) -> tuple[dict[str, Any], Any]:
    for spec in VALID_SPECS[kind]:
        value: Any = {"spec": spec}
        try:
            for step in _list_steps(path.removesuffix("{key}")):
                value = value[_resolve(value, step)]
        except (KeyError, IndexError, StopIteration):
            continue
        return spec, value
    raise LookupError(f"{kind}: no valid spec has {path}. Add the field to one")
