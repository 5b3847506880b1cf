"""Page of Event reasons: the meaning of each, and what to do.

The texts are in `event_reasons.yaml`. The contract test compares them with the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import yaml

from tools.packages import ROOT
from tools.reference import markdown
from tools.reference.constants import read_constants

_TABLE = ROOT / "tools/reference/event_reasons.yaml"
_PLACES = {
    "tenant": "In the tenant",
    "super": "In the super cluster",
}
_SOURCES = ("syncer", "vcmanager")
_CONDITIONS_TEXT = (
    "## Events of conditions\n\n"
    "Events of VirtualClusters, VirtualClusterSnapshots and SuperClusters report changed"
    " conditions, with the message of the condition.\n\n"
    "- If the condition is bad, the reason of the Event is the reason of the condition. The"
    " [conditions](conditions.md) have the remedies.\n"
    "- If it is good again, the reason of the Event is the type of the condition, or its reason.\n"
)
"""Section about Events whose reasons are computed."""
_HEAD = markdown.build_head(
    "Events",
    "`tools/reference/event_reasons.yaml`",
    "`kubectl get events -A` in the tenant lists the Events of the first section. The message names"
    " the field, and in parentheses the rule.",
)


def build_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    table = load_table()
    for place, title in _PLACES.items():
        parts.append(f"## {title}\n")
        for reason, row in sorted(table.items()):
            if row["where"] == place:
                parts.append(f"### {reason}\n\n{row['meaning']}\n\n**Remedy.** {row['remedy']}\n")
    return "\n".join([*parts, _CONDITIONS_TEXT])


def load_table() -> Mapping[str, Mapping[str, str]]:
    """Return the documented reasons."""
    table: dict[str, dict[str, str]] = yaml.safe_load(_TABLE.read_text())
    return table


def find_reasons() -> set[str]:
    """Return the reasons that the code passes to an Event recorder by name or as text.

    A reason that is computed is not found.
    """
    files = [path for source in _SOURCES for path in sorted((ROOT / source).rglob("*.py"))]
    files += sorted((ROOT / "tenancy").rglob("*.py"))
    constants = {
        (path.stem, each.name): each.value for path in files for each in read_constants(path)
    }
    found = set()
    for path in files:
        tree = ast.parse(path.read_text())
        origins = _find_origins(tree)
        for reason in _iterate_arguments(tree):
            if isinstance(reason, ast.Constant):
                found.add(str(reason.value))
            elif isinstance(reason, ast.Attribute):
                found.add(constants.get((ast.unparse(reason.value), reason.attr), ""))
            elif isinstance(reason, ast.Name):
                place = origins.get(reason.id, path.stem)
                found.add(constants.get((place, reason.id), ""))
    return (found | _read_sync_reasons(constants)) - {""}


def _read_sync_reasons(constants: Mapping[tuple[str, str], str]) -> set[str]:
    """Return the fixed reasons of the Events about conditions of the syncer."""
    names = (("wellknown", "SYNCED"), ("wellknown", "DELETES_HELD"), ("sync_events", "RELEASED"))
    return {constants[name] for name in names}


def _find_origins(tree: ast.Module) -> dict[str, str]:
    """Return the last part of the module of each imported name."""
    return {
        name.name: (node.module or "").rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def _iterate_arguments(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the argument `reason` of each call of a recorder."""
    for node in ast.walk(tree):
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_method or node.func.attr != "record":  # type: ignore[attr-defined]
            continue
        assert isinstance(node, ast.Call)
        if "recorder" not in ast.unparse(node.func).lower():
            continue
        named = [each.value for each in node.keywords if each.arg == "reason"]
        yield from named or node.args[1:2]
