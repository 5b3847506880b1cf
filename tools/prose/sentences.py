"""Sentences of a paragraph, with markup removed and with code counted as one word.

Inline code, a URL and a value of an f-string are one word each, and are never searched for words.
Markup is replaced by the same number of characters, so that line numbers stay right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CODE = "\ue000"
"""Replacement of code, URLs and values. A run of it is one word."""
_MARKUP_GONE = "\u200b"

_MARKUP = (
    (re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)"), CODE),
    (re.compile(r"<!--.*?-->"), _MARKUP_GONE),
    (re.compile(r"\{\{.*?\}\}"), CODE),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), _MARKUP_GONE),
    (re.compile(r"(?<=\])(?:\([^)\s]*(?: \"[^\"]*\")?\)|\[[^\]]*\])"), _MARKUP_GONE),
    (re.compile(r"<?https?://[^\s)>]*[^\s)>.,;:]>?"), CODE),
    (re.compile(r"</?[a-z][a-z0-9]*(?: [^>]*)?/?>"), _MARKUP_GONE),
    (re.compile(r"\*{1,3}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)"), _MARKUP_GONE),
)
_HAS_MARKUP = re.compile(r"[`<{\[*_]|://")
_ABBREVIATIONS = re.compile(
    r"(?:^|[\s(\u200b])(?:e\.g|i\.e|etc|vs|cf|approx|incl|excl|resp|no|nos|sec|fig|l|p|pp|ca|St|Dr|Mr"
    r"|[A-Z])\.$"
)
_ABBREVIATION_CHARACTERS = 10
_END = re.compile(r"[.!?][)\]\"'\u2019\u201d\u200b]*(?=\s|$)")
_WORD = re.compile(r"[\w\ue000%]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of prose or one table cell, and its number in the file, counted from 1."""

    number: int
    text: str
    is_cell: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, with markup and code replaced. A fragment is a part of a longer message.

    A sentence of a table cell may have no verb.
    """

    path: str
    line: int
    text: str
    is_fragment: bool = False
    is_cell: bool = False

    @property
    def words(self) -> int:
        """Return the number of words. Inline code and a URL are one each."""
        return sum(1 for word in self.text.split() if _WORD.search(word))

    @property
    def shown(self) -> str:
        """Return the text for a report, in one line."""
        return re.sub(f"{CODE}+", "`..`", self.plain)

    @property
    def plain(self) -> str:
        """Return the text in one line, without the places of markup."""
        return " ".join(self.text.replace(_MARKUP_GONE, "").split())


def split(path: str, lines: Iterable[Line], *, is_message: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of one paragraph or list item.

    The sentences of a message that begin in lower case are fragments.
    """
    text, numbers, is_cell = "", list[int](), False
    for line in lines:
        is_cell = line.is_cell
        piece = line.text.strip() + "\n"
        text += piece
        numbers += [line.number] * len(piece)
    if _HAS_MARKUP.search(text):
        for pattern, filler in _MARKUP:
            text = pattern.sub(lambda m, c=filler: c * len(m[0]), text)  # type: ignore[misc]
    begin = 0
    for end in _ends(text):
        whole = text[begin:end]
        at = begin + len(whole) - len(whole.lstrip())
        if _WORD.search(whole):
            stripped = whole.strip()
            is_fragment = is_message and not stripped[0].isupper()
            number = numbers[min(at, len(numbers) - 1)]
            yield Sentence(path, number, stripped, is_fragment, is_cell)
        begin = end


def _ends(text: str) -> Iterator[int]:
    for found in _END.finditer(text):
        last = found.start() + 1
        if not _ABBREVIATIONS.search(text[max(0, last - _ABBREVIATION_CHARACTERS) : last]):
            yield found.end()
    yield len(text)
