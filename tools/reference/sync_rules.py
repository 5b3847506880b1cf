"""Page of the rules in Events SyncRejected and SyncAdjusted: the field, and the sentence of each.

The sentences are those of the code. A part that depends on the object is shown as `...`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.packages import ROOT
from tools.reference import markdown

_SOURCE = ROOT / "syncer"
_ANY = "..."
_PLACES = {"RejectionProblem": (0, 1, 2), "RefuseField": (0, None, 1), "AllowValues": (1, None, 2)}
"""Positions of rule, path and text in the arguments, by class."""
_FIELD_NAMES = ("rule", "path", "text")
_HEAD = markdown.build_head(
    "Rules",
    "the code in `syncer`",
    "A rule is the word in parentheses at the end of an Event `SyncRejected` or `SyncAdjusted`. The"
    " message continues the path of the field. [policy.md](../policy.md) lists the policy fields"
    " that allow more.",
)


@dataclass(frozen=True, slots=True, order=True)
class RuleUse:
    """One place of the code that refuses or changes something by a rule."""

    rule: str
    path: str
    text: str


def build_page() -> str:
    """Return the page."""
    uses = sorted(set(find_uses()))
    parts = [_HEAD]
    for rule in sorted({each.rule for each in uses}):
        rows = [
            (markdown.quote(each.path) or "the field of the object", each.text)
            for each in uses
            if each.rule == rule and each.text
        ]
        parts.append(f"## {rule}\n")
        parts.append(markdown.build_table(("field", "message"), rows))
    return "\n".join(parts)


def find_uses() -> Iterator[RuleUse]:
    """Yield each use of a rule whose name is written in the code."""
    for path in sorted(_SOURCE.rglob("*.py")):
        yield from _find_in_module(path)


def _find_in_module(path: Path) -> Iterator[RuleUse]:
    tree = ast.parse(path.read_text())
    constants = _Assignments(tree.body)
    scopes: list[ast.AST] = [tree]
    scopes += [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    seen: set[int] = set()
    for scope in reversed(scopes):  # the innermost first
        known = _Assignments(ast.walk(scope), constants)
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and id(node) not in seen:
                seen.add(id(node))
                use = _read_call(node, known)
                if use is not None:
                    yield use


class _Assignments:
    """Values of names in one scope, by line."""

    def __init__(self, body: Iterable[ast.AST], outer: _Assignments | None = None) -> None:
        """Read the assignments of a whole name. `name += more` adds to the value before it."""
        self._outer = outer
        self._values: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                rows = self._values.setdefault(node.targets[0].id, [])
                rows.append((node.lineno, node.value))
            elif (
                isinstance(node, ast.AugAssign)
                and isinstance(node.target, ast.Name)
                and _is_text(node.value)  # not a count
            ):
                sum_ = ast.BinOp(node.target, node.op, node.value)
                self._values.setdefault(node.target.id, []).append((node.lineno, sum_))

    def get(self, name: str, line: int) -> ast.expr | None:
        """Return the last value before a line. A constant of the module has no line."""
        rows = [row for row in self._values.get(name, ()) if row[0] < line]
        if rows:
            return max(rows, key=lambda row: row[0])[1]
        return self._outer.get(name, sys.maxsize) if self._outer is not None else None


def _read_call(node: ast.Call, known: _Assignments) -> RuleUse | None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in _PLACES:
        return None
    named = {each.arg: each.value for each in node.keywords}
    found = []
    for field, place in zip(_FIELD_NAMES, _PLACES[name], strict=True):
        value = named.get(field)
        if value is None and place is not None and place < len(node.args):
            value = node.args[place]
        found.append("" if value is None else _format(value, known))
    rule, path, text = found
    if not rule or _ANY in rule:
        return None  # the rule comes from a table, which is read where it is written
    return RuleUse(rule, path.replace(_ANY, "*"), text)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _format(node: ast.expr, known: _Assignments) -> str:
    """Return the text of an expression, with `...` for what only the object decides."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_format(part, known) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _format(node.value, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _format(node.left, known) + _format(node.right, known)
    value = known.get(node.id, node.lineno) if isinstance(node, ast.Name) else None
    return _ANY if value is None else _format(value, known)
