"""Objects grown along a schema: leaves of the right kind at random places, and strays beside them.

A schema is what an API server publishes, or a verdict table. An object is grown from one that is
good, leaf by leaf, so that much of what comes out is taken and not everything refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from syncer.model.field_rules import AllowMap, FieldRule, ListOfObjects, ObjectFields

STRAY = "stray-value"
"""Content of unknown fields, which must never appear anywhere."""
STRAY_FIELD = "strayField"
TEXTS = (
    "",
    "a",
    "main",
    "x/y",
    "../x",
    "Always",
    "Never",
    "None",
    "Default",
    "ClusterFirst",
    "In",
    "Exists",
    "DoesNotExist",
    "node-1",
    "web",
    "kubernetes.io/hostname",
    "node-role.kubernetes.io/worker",
    "metadata.name",
    "metadata.uid",
    "metadata.labels",
    "metadata.labels['app']",
    "metadata.annotations['x/y']",
    "metadata.labels[",
    "spec.serviceAccountName",
    "status.hostIP",
    "kube-root-ca.crt",
    "vc-token-aaaa",
    "system-node-critical",
    "RuntimeDefault",
    "Localhost",
    "10Mi",
    "2",
)


@dataclass(frozen=True)
class SchemaNode:
    """A place in a schema."""

    kind: str
    """object, list, map, text, number, flag, or any."""
    fields: Mapping[str, Callable[[], SchemaNode]] = field(default_factory=dict)
    item: Callable[[], SchemaNode] | None = None


_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "flag"}


def of_openapi(definitions: Mapping[str, Any], schema: Mapping[str, Any]) -> SchemaNode:
    """Return a place in the schema that an API server publishes."""
    name = str(schema.get("$ref", "")).removeprefix("#/definitions/")
    if name:
        schema = definitions[name]
    if schema.get("properties"):
        return SchemaNode(
            "object",
            fields={
                key: lambda inner=inner: of_openapi(definitions, inner)  # type: ignore[misc]
                for key, inner in schema["properties"].items()
            },
        )
    if schema.get("type") == "array":
        return SchemaNode("list", item=lambda: of_openapi(definitions, schema["items"]))
    if "additionalProperties" in schema:
        return SchemaNode("map")
    return SchemaNode(_KINDS.get(schema.get("type", ""), "any"))


def of_table(table: Mapping[str, FieldRule]) -> SchemaNode:
    """Return the schema that a verdict table is written for."""
    return SchemaNode(
        "object",
        fields={
            key: lambda verdict=verdict: _of_verdict(verdict)  # type: ignore[misc]
            for key, verdict in table.items()
        },
    )


def _of_verdict(verdict: FieldRule) -> SchemaNode:
    match verdict:
        case ObjectFields():
            return of_table(verdict.fields)
        case ListOfObjects():
            return SchemaNode("list", item=lambda: of_table(verdict.fields))
        case AllowMap():
            return SchemaNode("map")
    return SchemaNode("any")


_SCALARS = {
    "text": st.sampled_from(TEXTS),
    "number": st.sampled_from([0, 1, 80, -1, 600, 2**31]),
    "flag": st.booleans(),
}
_SCALARS["any"] = st.one_of(*_SCALARS.values())
_STRAYS = st.sampled_from(
    [STRAY, {"a": STRAY}, [STRAY], [{"a": STRAY}], "", False, 0, [], {}, None]
)
JSON = st.recursive(
    st.none() | _SCALARS["any"],
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(_SCALARS["text"], inner, max_size=2)
    ),
    max_leaves=4,
)
"""Any value, for stores with values that no honest API server has."""


def grow(draw: st.DrawFn, node: SchemaNode, body: dict[str, Any], *, honest: bool) -> None:
    """Graft one leaf onto an object, in place. A dishonest one is of any shape."""
    while True:
        name = draw(st.sampled_from([*node.fields, STRAY_FIELD]))
        if name == STRAY_FIELD:
            body[name] = draw(_STRAYS)
            return
        child = node.fields[name]()
        there = body.get(name)
        if not honest and draw(st.integers(0, 3)) == 0:
            body[name] = draw(JSON)
            return
        if child.kind == "object":
            body[name] = there if isinstance(there, dict) else {}
            node, body = child, body[name]
        elif child.kind == "list":
            items = body[name] = there if isinstance(there, list) else []
            item = child.item() if child.item is not None else SchemaNode("any")
            if item.kind != "object":
                items.append(draw(_SCALARS.get(item.kind, _SCALARS["any"])))
                return
            if not items or draw(st.integers(0, 3)) == 0:
                items.append({"name": f"n{len(items)}"} if "name" in item.fields else {})
            inner = draw(st.sampled_from(items))
            if not isinstance(inner, dict):
                return
            node, body = item, inner
        elif child.kind == "map":
            found = body[name] = there if isinstance(there, dict) else {}
            found[draw(st.sampled_from(["k", "app", "x/y"]))] = draw(_SCALARS["text"])
            return
        else:
            body[name] = draw(_SCALARS[child.kind])
            return
