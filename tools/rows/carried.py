"""Which tests carry which rows' ids in their docstrings. Reads the tests' sources, runs nothing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[2] / "tests"


class LocatedTest(NamedTuple):
    """Where a test is."""

    module: str
    """Below `tests/`."""
    name: str


def in_tests(ids: re.Pattern[str]) -> Mapping[str, Sequence[LocatedTest]]:
    """Return the tests of each id of a kind, in the order of their files."""
    found: defaultdict[str, list[LocatedTest]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        module = path.relative_to(TESTS).as_posix()
        for name, carried in in_source(path.read_text(), ids):
            for each in carried:
                found[each].append(LocatedTest(module, name))
    return found


@cache
def list_tests(module: str) -> frozenset[str]:
    """Return the names of the tests of a module below `tests/`. None without such a file."""
    path = TESTS / module
    return (
        frozenset(node.name for node in _iterate_tests(path.read_text()))
        if path.is_file()
        else frozenset()
    )


def in_source(text: str, ids: re.Pattern[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each test of a module that carries ids, with them."""
    if not ids.search(text):
        return
    for node in _iterate_tests(text):
        found = ids.findall(ast.get_docstring(node) or "")
        if found:
            yield node.name, list(dict.fromkeys(found))


def _iterate_tests(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the test functions of a module."""
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_"):
            yield node
