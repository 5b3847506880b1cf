"""Contents of a walkthrough: its files, and its commands with their output. Pure.

A fenced block `yaml NAME` is a file of that name. In a block `console`, a line that begins with `$
` is a command, and lines that begin with `> ` continue it. The other lines are its output. `...`
stands for any text within a line, and alone for any lines. Words are compared without the gaps
between them, because columns are as wide as their names. A block of a list item is indented as a
whole. Other blocks are for people. Hazard: a malformed block must be refused, otherwise the page
shows a command that is never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ANYTHING = "..."
_FENCE = re.compile(r"^( *)```(.*)$")
_FOR_PEOPLE = ("", "sh", "text", "yaml")


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file that a reader writes."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PageCommand:
    """A command that a reader types."""

    line: int
    """Where it stands, counted from one."""
    text: str
    shown: tuple[str, ...]
    """Output of the command. None: it is not checked."""


def steps(text: str) -> list[PageFile | PageCommand]:
    """Return the steps in their order. Raises ValueError for an empty block."""
    found: list[PageFile | PageCommand] = []
    for number, kind, lines in _blocks(text):
        word, _, name = kind.partition(" ")
        if word == "console":
            found += _commands(number, lines)
        elif name and word == "yaml":
            found.append(PageFile(name, "\n".join(lines) + "\n"))
        elif kind not in _FOR_PEOPLE:
            raise ValueError(f"line {number}: a block of the kind {kind!r} is not known")
    return found


def is_shown(printed: str, shown: Sequence[str]) -> bool:
    """Return whether a command printed what the page shows."""
    return not shown or _lines_match(printed.rstrip("\n").splitlines(), list(shown))


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each fenced block: the line of its fence, its kind, its lines."""
    begun: tuple[int, str, list[str]] | None = None
    indent = ""
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence is None:
            if begun is not None:
                begun[2].append(line.removeprefix(indent))
        elif begun is None:
            begun, indent = (number, fence[2].strip(), []), fence[1]
        else:
            yield begun
            begun = None
    if begun is not None:
        raise ValueError(f"line {begun[0]}: the block does not end")


def _commands(fence: int, lines: Sequence[str]) -> Iterator[PageCommand]:
    at, typed, shown = 0, "", list[str]()
    for number, line in enumerate(lines, start=fence + 1):
        if line.startswith("$ "):
            if at:
                yield PageCommand(at, typed, tuple(shown))
            at, typed, shown = number, line.removeprefix("$ "), []
        elif not at:
            raise ValueError(f"line {number}: a console begins with a command")
        elif line.startswith("> ") and not shown:
            typed += "\n" + line.removeprefix("> ")
        else:
            shown.append(line)
    if not at:
        raise ValueError(f"line {fence}: a console without a command")
    yield PageCommand(at, typed, tuple(shown))


def _lines_match(printed: Sequence[str], shown: Sequence[str]) -> bool:
    if not shown:
        return not printed
    if shown[0].strip() == ANYTHING:
        return any(_lines_match(printed[at:], shown[1:]) for at in range(len(printed) + 1))
    return (
        bool(printed)
        and _line_matches(printed[0], shown[0])
        and _lines_match(printed[1:], shown[1:])
    )


def _line_matches(printed: str, shown: str) -> bool:
    pattern = re.escape(" ".join(shown.split())).replace(re.escape(ANYTHING), ".*")
    return re.fullmatch(pattern, " ".join(printed.split())) is not None
