"""Commands of Markdown pages: in code blocks, and in inline code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^\s*(```+)\s*(\S*)")
_PROMPT = re.compile(r"^\s*(?:[\w-]*\$ )?")
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_ENDS = frozenset({"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", ")", "|&"})
_COMMENT = re.compile(r"\s#\s.*$")


@dataclass(frozen=True, slots=True)
class PageCommand:
    """One command of a page."""

    line: int
    text: str
    is_whole: bool
    """True in a code block. Inline code may name a verb without its arguments."""


def read_commands(text: str, program: str) -> Iterator[PageCommand]:
    """Yield the commands of a page that begin with a program, such as `kubectl vc`."""
    fence, joined, first = "", "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            continue
        if not fence:
            for found in _INLINE.finditer(line):
                yield from _find(found[1], program, number, is_whole=False)
            continue
        first = first if joined else number
        joined += line.removesuffix("\\").strip() + " " if line.endswith("\\") else line
        if not line.endswith("\\"):
            yield from _find(_PROMPT.sub("", joined), program, first, is_whole=True)
            joined = ""


def split_words(command: PageCommand) -> list[str]:
    """Return the words after the program, up to the end of the command."""
    lexer = shlex.shlex(command.text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if word in _ENDS:
            break
        words.append(word)
    return words


def _find(text: str, program: str, line: int, *, is_whole: bool) -> Iterator[PageCommand]:
    text = _COMMENT.sub("", text)
    pattern = rf"(?:^|[;&|({{]\s*|\bdo |\$\(){re.escape(program)}(?= |$)"
    for found in re.finditer(pattern, text):
        yield PageCommand(line, text[found.end() :].strip(), is_whole)
