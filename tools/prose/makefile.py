"""Prose of a Makefile: comments, help of targets and printed texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.prose import markdown
from tools.prose.sentences import Line

_COMMENT = re.compile(r"^# ?(.*)$")
_HELP = re.compile(r"^[a-z-]+:.*?## (.*)$")
_PRINTED = re.compile(r'\becho "([^"$]*)"')


def paragraphs(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs of comments, and each help and printed text as one."""
    block: list[Line] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if comment := _COMMENT.match(line):
            block.append(Line(number, comment[1]))
            continue
        yield from markdown.of_lines(block)
        block = []
        if found := _HELP.match(line) or _PRINTED.search(line):
            yield [Line(number, found[1].replace("\\`", "`"))]
    yield from markdown.of_lines(block)
