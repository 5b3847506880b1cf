"""Tables, JSON, YAML and names, as kubectl prints them. Pure.

Hazard: a table must never be cut to the terminal's width. A cut name is no name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from tenancy.resources import Resource

_COLUMN_GAP = "   "


class OutputFormat(StrEnum):
    """Output format of objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class ReportFormat(StrEnum):
    """Output format of a report, which is no object."""

    TABLE = "table"
    JSON = "json"


def format_table(heads: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "") -> str:
    """Return aligned columns, heads in upper case, without blanks at the ends of lines."""
    lines = [
        [head.upper() for head in heads],
        *([cell or "<none>" for cell in row] for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "".join(
        indent
        + _COLUMN_GAP.join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def format_row(cells: Iterable[str]) -> str:
    """Return one row without alignment, for rows that come one by one."""
    return _COLUMN_GAP.join(cell or "<none>" for cell in cells) + "\n"


def format_document(value: Mapping[str, Any], form: OutputFormat) -> str:
    """Return an object or a list of objects as JSON or YAML, without managedFields."""
    plain = _strip_managed_fields(value)
    if form is OutputFormat.JSON:
        return json.dumps(plain, indent=4, ensure_ascii=False) + "\n"
    from kubeio.api.yaml_writer import to_yaml  # noqa: PLC0415 - 40 ms that only this format needs

    return to_yaml(plain, sort_keys=True)


def build_list(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return objects as the List that kubectl prints for several."""
    return {"apiVersion": "v1", "items": [*items], "kind": "List", "metadata": {}}


def format_full_name(resource: Resource, name: str) -> str:
    """Return the output of `-o name`: `virtualcluster.tenancy.x-k8s.io/web`."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}/{name}" if resource.group else f"{kind}/{name}"


def _strip_managed_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    if "items" in value:
        return {**value, "items": [_strip_managed_fields(item) for item in value["items"]]}
    metadata = {k: v for k, v in (value.get("metadata") or {}).items() if k != "managedFields"}
    return {**value, "metadata": metadata}
