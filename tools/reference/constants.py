"""Reader of constants: name, value and documentation of each string at the top of a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_SECTION = re.compile(r"^# (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedConstant:
    """One constant: `section` is the comment line above its block, `text` its docstring."""

    name: str
    value: str
    text: str
    section: str


def read_constants(path: Path) -> Iterator[DocumentedConstant]:
    """Yield each constant with a string value. A reference to an earlier one is resolved."""
    source = path.read_text()
    sections = {
        source.count("\n", 0, found.start()) + 1: found[1] for found in _SECTION.finditer(source)
    }
    known: dict[str, str] = {}
    body = ast.parse(source).body
    for node, follower in pairwise([*body, ast.Pass()]):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        value = _evaluate(node.value, known)
        if value is None:
            continue
        name = node.targets[0].id
        known[name] = value
        lines = [line for line in sections if line < node.lineno]
        yield DocumentedConstant(
            name=name,
            value=value,
            text=_read_docstring(follower),
            section=sections[max(lines)] if lines else "",
        )


def _evaluate(node: ast.expr, known: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [
            _evaluate(each.value if isinstance(each, ast.FormattedValue) else each, known)
            for each in node.values
        ]
        return None if None in parts else "".join(map(str, parts))
    if isinstance(node, ast.Name):
        return known.get(node.id)
    return None


def _read_docstring(node: ast.AST) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if is_text and isinstance(node.value.value, str):  # type: ignore[attr-defined]
        return " ".join(str(node.value.value).split())  # type: ignore[attr-defined]
    return ""
