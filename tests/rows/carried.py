"""Which tests carry which rows' ids in their docstrings. Reads the tests' sources, runs nothing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
_ID = re.compile(r"\b(?:REL|SEC|V|X)-\d{2,3}\b")


class Shown(NamedTuple):
    """Where a test is."""

    module: str
    """Below `tests/`."""
    name: str


def in_tests() -> Mapping[str, Sequence[Shown]]:
    """Return the tests of each id, in the order of their files."""
    found: defaultdict[str, list[Shown]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        module = path.relative_to(TESTS).as_posix()
        for name, ids in in_source(path.read_text()):
            for each in ids:
                found[each].append(Shown(module, name))
    return found


def in_source(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each test of a module that carries ids, with them."""
    if _ID.search(text) is None:
        return
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        ids = _ID.findall(ast.get_docstring(node) or "")
        if ids:
            yield node.name, list(dict.fromkeys(ids))
