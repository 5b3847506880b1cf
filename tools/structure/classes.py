"""Class names that more than one module of the packages defines."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tools.packages import ROOT


def duplicates(paths: Iterable[Path], root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names of several classes, with the files that define them.

    A leading underscore makes no other name: `_Row` and `Row` are one.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(path))
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}
