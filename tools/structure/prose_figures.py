"""Prose of docstrings per package, beside six well-known Python projects.

The figures of the six are constants, measured once over their docstrings at kopf 60d02ae, trio
60d0c2f, httpx ae1b9f6, structlog 025edaf, jinja 5ef7011 and h11 62c5068.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.packages import ROOT
from tools.prose import limits, python_source
from tools.prose.sentences import Sentence, split

LONG_WORDS = 25
ANCHORS = (
    ("kopf", "1252", "17.5", "17 %", "4 %", "0 %", "1 %"),
    ("trio", "1493", "16.5", "18 %", "3 %", "1 %", "1 %"),
    ("httpx, structlog, jinja, h11", "2200", "14.1-17.3", "9-19 %", "0-2 %", "0 %", "0-2 %"),
)
COLUMNS = ("docstrings", "sentences", "mean", "> 25 words", "with ;", "nobody ...", "what/who")
_NOBODY = re.compile(r"\b(?:nobody|somebody|whoever|whom|whose|others)\b", re.IGNORECASE)
_WHAT = re.compile(r"\b(?:what|who)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the docstrings of one package. Shares are 0 to 1."""

    sentences: int
    mean_words: float
    long: float
    semicolons: float
    nobody: float
    what: float

    def cells(self) -> tuple[str, ...]:
        """Return the figures as the cells of a row."""
        shares = (self.long, self.semicolons, self.nobody, self.what)
        return (
            str(self.sentences),
            f"{self.mean_words:.1f}",
            *(f"{100 * share:.0f} %" for share in shares),
        )


def of_modules(paths: Iterable[Path], root: Path = ROOT) -> Figures:
    """Return the figures of the docstrings of modules."""
    found: list[Sentence] = []
    for path in paths:
        nodes = python_source.nodes((root / path).read_text(encoding="utf-8"))
        for block in python_source.docstrings(nodes):
            found += split(str(path), block)
    return of_sentences(found)


def of_sentences(sentences: Sequence[Sentence]) -> Figures:
    """Return the figures of sentences."""
    count = max(1, len(sentences))
    return Figures(
        len(sentences),
        sum(s.words for s in sentences) / count,
        sum(s.words > LONG_WORDS for s in sentences) / count,
        sum(map(limits.has_semicolon, sentences)) / count,
        sum(_NOBODY.search(s.plain) is not None for s in sentences) / count,
        sum(_WHAT.search(s.plain) is not None for s in sentences) / count,
    )
