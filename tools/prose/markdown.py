"""Paragraphs, list items and table cells of Markdown.

Front matter, code fences, headings and HTML comments are left out. Each list item is at least one
sentence. A short bold text that begins a paragraph is a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.prose.sentences import Line

_ITEM = re.compile(r"^(\s*)(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_LEAD = re.compile(r"^\s*\*\*([^*]{1,60})\*\*")
_LEAD_WORDS = 6
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_BAR = re.compile(r"(?<!\\)\|")
_NO_PROSE_LINE = re.compile(r"^\s*(?:-{3,}|={3,}|\*{3,}|\[[^\]]+\]:\s.*)\s*$")


def paragraphs(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs, list items and table cells of a text."""
    block: list[Line] = []
    fence, indent, comment = "", 0, False
    for number, raw in enumerate(_without_front_matter(text.splitlines()), start=1):
        line = re.sub(r"^\s*>\s?", "", raw)
        mark = _FENCE.match(line)
        if fence or comment:
            fence = "" if fence and mark and mark[1].startswith(fence) else fence
            comment = comment and "-->" not in line
            continue
        if line.lstrip().startswith("|"):
            yield from ([Line(number, cell, is_cell=True)] for cell in _BAR.split(line))
        item = _ITEM.match(line)
        is_code = not item and not block and not indent and re.match(r"^(?: {4}|\t)", line)
        if mark or is_code or _is_no_prose(line):
            yield block
            block = []
            fence = mark[1] if mark else ""
            comment = line.lstrip().startswith("<!--") and "-->" not in line
            if line.strip() and not line.startswith(" "):
                indent = 0
            continue
        if item:
            yield block
            block, indent = [], len(item[0])
            line = line[len(item[0]) :]
        elif not block and not line.startswith(" "):
            indent = 0
        block.append(Line(number, line if block else _without_lead(line)))
    yield block


def _without_front_matter(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a page. Lines of its front matter are empty, so that numbers stay."""
    end = lines.index("---", 1) if lines[:1] == ["---"] and "---" in lines[1:] else -1
    for number, line in enumerate(lines):
        yield "" if number <= end else line


def of_lines(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the paragraphs of lines that have numbers of their own."""
    for part in paragraphs("\n".join(line.text for line in lines)):
        yield [Line(lines[line.number - 1].number, line.text) for line in part]


def _is_no_prose(line: str) -> bool:
    stripped = line.lstrip()
    return (
        not stripped
        or stripped.startswith(("#", "|", "<!--", "[!"))
        or _NO_PROSE_LINE.match(line) is not None
    )


def _without_lead(line: str) -> str:
    """Return a first line without a bold text that serves as its heading."""
    lead = _LEAD.match(line)
    if lead and len(lead[1].split()) <= _LEAD_WORDS and lead[1].rstrip()[-1:] in (".", ":", "?"):
        return line[lead.end() :]
    return line
