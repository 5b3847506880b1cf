"""Prose of charts: comments, descriptions of CRDs and schemas, texts of alerts and dashboards."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from tools.prose import markdown
from tools.prose.python_source import NO_PROSE
from tools.prose.sentences import Line

_TEXT_KEYS = {"description", "summary", "title", "message"}
_OWN_LINE = re.compile(r"^\s*#+ ?(?:-- )?(.*)$")
_BEHIND_VALUE = re.compile(r"\s# ?(.*)$")
_TEMPLATE_COMMENT = re.compile(r"\{\{-? ?/\*(.*?)\*/ ?-?\}\}", re.DOTALL)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def comments(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs of YAML comments, on lines of their own or after a value."""
    block: list[Line] = []
    for number, line in enumerate(text.splitlines(), start=1):
        own = _OWN_LINE.match(line)
        behind = _BEHIND_VALUE.search(line)
        if own and not NO_PROSE.match(own[1]):
            block.append(Line(number, own[1]))
            continue
        yield from markdown.of_lines(block)
        block = []
        if behind and not own:
            yield [Line(number, behind[1])]
    yield from markdown.of_lines(block)


def template_comments(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs of comments of a Helm template, `{{/* ... */}}`."""
    for found in _TEMPLATE_COMMENT.finditer(text):
        first = text.count("\n", 0, found.start(1)) + 1
        lines = found[1].splitlines()
        yield from markdown.of_lines([Line(first + n, line) for n, line in enumerate(lines)])


def texts(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs of descriptions, summaries, titles and messages.

    A Helm template is no YAML before it is rendered, so it has comments alone.
    """
    try:
        documents = list(yaml.compose_all(text, Loader=_LOADER))
    except yaml.YAMLError:
        return
    for document in documents:
        yield from _texts(document)


def _texts(node: yaml.Node | None) -> Iterator[list[Line]]:
    match node:
        case yaml.SequenceNode(value=items):
            for item in items:
                yield from _texts(item)
        case yaml.MappingNode(value=pairs):
            for key, value in pairs:
                if isinstance(value, yaml.ScalarNode) and key.value in _TEXT_KEYS:
                    first = value.start_mark.line
                    for block in markdown.paragraphs(value.value):
                        yield [Line(line.number + first, line.text) for line in block]
                else:
                    yield from _texts(value)
