"""Words of module names that are neither standard terms nor terms of the glossary.

`words.txt` has the standard terms of Kubernetes, client-go, controller-runtime, HTTP and Python.
The terms of the glossary are the first cells of the rows of `docs/glossary.md`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tools.packages import ROOT

_STANDARD = Path(__file__).parent / "words.txt"
_GLOSSARY = ROOT / "docs/glossary.md"
_CELL = re.compile(r"^\|([^|]+)\|", re.MULTILINE)
_WORD = re.compile(r"[a-z][a-z0-9]*")


def known() -> set[str]:
    """Return the standard terms and the terms of the glossary, in lower case."""
    lines = _STANDARD.read_text().splitlines()
    standard = {word for line in lines for word in line.partition("#")[0].split()}
    return standard | glossary(_GLOSSARY.read_text())


def glossary(text: str) -> set[str]:
    """Return the words in the first cells of the tables of a glossary."""
    return {word for cell in _CELL.findall(text) for word in _WORD.findall(cell.lower())}


def outside(paths: Iterable[Path], words: set[str]) -> dict[str, list[str]]:
    """Return the unknown words of module and folder names, with the modules that have them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for word in _words(path):
            if not is_known(word, words):
                found[word].append(str(path))
    return dict(sorted(found.items()))


def is_known(word: str, words: set[str]) -> bool:
    """Return whether a word or its singular is known."""
    singulars = {word}
    if word.endswith("ies"):
        singulars.add(word.removesuffix("ies") + "y")
    if word.endswith("es"):
        singulars.add(word.removesuffix("es"))
    if word.endswith("s"):
        singulars.add(word.removesuffix("s"))
    return not singulars.isdisjoint(words)


def _words(path: Path) -> list[str]:
    name = path.with_suffix("")
    parts = [*name.parts[:-1], *([] if name.name.startswith("__") else [name.name])]
    return sorted({word for part in parts for word in part.split("_") if word})
