"""Page of the custom resources: each field of each CRD."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.packages import ROOT
from tools.reference import markdown

_FILES = ROOT / "charts/virtual-cluster/files"
_FOLDERS = ("crds", "cluster-api")
_HEAD = markdown.build_head(
    "Custom resources",
    "`charts/virtual-cluster/files/`",
    "A field with a default can be left out. `[]` marks the items of a list, and `*` the keys of a"
    " map.",
)


def build_page() -> str:
    """Return the page."""
    crds = [yaml.safe_load(path.read_text()) for path in _list_files()]
    return "\n".join([_HEAD, *map(_build_section, crds)])


def _list_files() -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from sorted((_FILES / folder).glob("*.yaml"))


def _build_section(crd: Mapping[str, Any]) -> str:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    scope = crd["spec"]["scope"]
    shorts = ", ".join(markdown.quote(name) for name in names.get("shortNames", ()))
    about = f"`{crd['spec']['group']}/{version['name']}`, {scope.lower()}."
    if shorts:
        about += f" Short names: {shorts}."
    rows = [
        row
        for part in ("spec", "status")
        for row in _iterate_rows(schema["properties"].get(part, {}), part)
    ]
    table = markdown.build_table(("field", "type", "default", "meaning"), rows)
    return f"## {names['kind']}\n\n{about}\n\n{schema.get('description', '')}\n\n{table}"


def _iterate_rows(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield markdown.quote(where), _name_type(field), _format_default(field), _describe(field)
        yield from _iterate_rows(field, where)
        if isinstance(items := field.get("items"), Mapping):
            yield from _iterate_rows(items, f"{where}[]")
        if isinstance(values := field.get("additionalProperties"), Mapping):
            yield from _iterate_rows(values, f"{where}.*")


def _name_type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(markdown.quote(str(value)) for value in field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_name_type(field['items'])}"
    return kind


def _format_default(field: Mapping[str, Any]) -> str:
    return markdown.quote(json.dumps(field["default"])) if "default" in field else ""


def _describe(field: Mapping[str, Any]) -> str:
    return str(field.get("description", ""))
