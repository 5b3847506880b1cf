"""Tables of field rules from the paths of a SyncRule.

Pure. Must not know references. Hazard: a field that no path names must be refused. Otherwise a
field that a newer CRD adds reaches the super cluster unchecked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from syncer.model.field_rules import (
    ALLOW_SCALAR,
    AllowMap,
    AllowTree,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
)
from syncer.model.rejections import RejectionProblem
from tenancy.sync_rules import field_paths
from tenancy.sync_rules.checks import CLOSED_FIELDS
from tenancy.sync_rules.field_paths import FieldNode

UNLISTED = "sync-rule-field"
CLOSED = "sync-rule-closed-field"
_CLOSED_TEXT = "must not be set here, because it would use rights of the super cluster. Remove it"


def build_table(rule: str, paths: Iterable[str]) -> Mapping[str, FieldRule]:
    """Return the table of a rule for these paths."""
    text = f"{_CLOSED_TEXT} (SyncRule {rule})"
    return _build_fields(field_paths.build_tree(paths), text)


def _build_fields(nodes: Mapping[str, FieldNode], text: str) -> Mapping[str, FieldRule]:
    return {name: _build_field(node, text) for name, node in nodes.items()}


def _build_field(node: FieldNode, text: str) -> FieldRule:
    """Return the rule of a field. `text` explains a closed name.

    Hazard: a map and a tree have names of the tenant's choice, so both must refuse closed names.
    Otherwise `spec.*` passes `privileged`.
    """
    match node.leaf:
        case "Value":
            return ALLOW_SCALAR
        case "Map":
            return AllowMap(CLOSED_FIELDS, CLOSED, text)
        case "Tree":
            return AllowTree(CLOSED_FIELDS, CLOSED, text)
    fields = _build_fields(node.fields, text)
    return ListOfObjects(fields) if node.is_list else ObjectFields(fields)


@dataclass(slots=True)
class RuleWalk(FieldWalk):
    """A walk that names the SyncRule in each problem."""

    rule: str = ""
    is_forbidden: bool = False
    """Whether an existing copy must go, because an earlier version passed a closed field."""

    def copy_fields(self, body: Any, table: Mapping[str, FieldRule]) -> dict[str, Any]:
        """Return the fields of an object that its table names."""
        copied = self.walk_fields(body, table, "")
        self.problems = [
            RejectionProblem(each.rule, each.path.lstrip("."), each.text) for each in self.problems
        ]
        return copied

    def _report_closed(self, rule: AllowMap | AllowTree, path: str) -> None:
        self.is_forbidden = True
        self.problems.append(RejectionProblem(rule.rule, path, rule.text))

    def _report_unknown(self, value: Any, path: str) -> None:
        if value is None or value in ("", [], {}):
            return
        if path.rpartition(".")[2] in CLOSED_FIELDS:
            text = f"{_CLOSED_TEXT} (SyncRule {self.rule})"
            self.problems.append(RejectionProblem(CLOSED, path, text))
            return
        text = (
            "is not synced. Remove it, or ask your platform administrator to list it in spec.fields"
            f" of the SyncRule {self.rule}"
        )
        self.problems.append(RejectionProblem(UNLISTED, path, text))


def copy_status(status: Any, table: Mapping[str, FieldRule]) -> dict[str, Any]:
    """Return the parts of a super object's status that the table names. Others are left out."""
    return FieldWalk().walk_fields(status if isinstance(status, dict) else {}, table, "status")
