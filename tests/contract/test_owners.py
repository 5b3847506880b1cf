"""State of the syncer has one owner: no module assigns a field of an object that is not its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "syncer"
OWN_RECORDS = {"safety/expectations.py", "safety/hot_loop_guard.py"}
"""Modules that assign fields of their own private records."""


def iterate_targets(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield each expression that is assigned or deleted, without tuples and subscripts."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                yield each.value if isinstance(each, ast.Subscript) else each


def list_foreign_assignments(source: str) -> list[str]:
    """Return the fields that are assigned, as a whole or by key, from outside of their object."""
    return [
        f"{target.lineno}: {ast.unparse(target)}"
        for target in iterate_targets(ast.parse(source))
        if isinstance(target, ast.Attribute)
        and not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))
    ]


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("self.x = 1", False),
        ("x = y = 1", False),
        ("session.x = 1", True),
        ("session.x += 1", True),
        ("session.x[key] = 1", True),
        ("del session.x[key]", True),
        ("a, session.x = 1, 2", True),
        ("self.session.x = 1", True),
    ],
)
def test_an_assignment_from_outside_is_found(source: str, is_found: bool):
    assert bool(list_foreign_assignments(source)) is is_found


def test_no_module_assigns_a_field_of_another_owner():
    found = {
        name: assigned
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := path.relative_to(PACKAGE).as_posix()) not in OWN_RECORDS
        and (assigned := list_foreign_assignments(path.read_text()))
    }
    assert not found, "make a method of the owner for it"
