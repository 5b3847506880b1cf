"""Prose of Python modules: docstrings, comments and message literals.

A message literal is a string constant or an f-string of five words or more. Help texts of options
and metrics are messages at any length. Regular expressions, HTTP messages and manifests are none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from tools.prose import markdown
from tools.prose.sentences import CODE, Line

MESSAGE_WORDS = 5
NO_PROSE = re.compile(
    r"^\s*(?:noqa|type:|pragma|ruff:|mypy:|pylint:|fmt:|nosec|!|-\*-|yaml-language-server)"
)
_HELP = {"help", "short_help", "epilog", "description"}
_METRICS = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}
_MANIFEST_LINES = 2
_PRINTED_COMMENT = re.compile(r"^# (?=[A-Z])", re.MULTILINE)
"""Mark of a comment in a transcript. Markdown reads it as a heading, which is no sentence."""
_MANIFEST_LINE = re.compile(r"^\s*(?:- )?[\w./-]+:(?: \S|$)", re.MULTILINE)


def nodes(text: str) -> list[ast.AST]:
    """Return the nodes of a module, outer nodes first. The other functions share this walk.

    It has the order of `ast.walk` and half its cost, which is most of the cost of a measurement.
    """
    found: list[ast.AST] = [ast.parse(text)]
    for node in found:
        for value in vars(node).values():
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return found


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[list[Line]]:
    """Yield the paragraphs of docstrings of modules, classes, functions and attributes."""
    for constant in _documentation(nodes):
        yield from _string(str(constant.value), constant.lineno)


def comments(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs of comments. Comments in successive lines belong together."""
    if "#" not in text:
        return
    block: list[Line] = []
    last = (0, -1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, column = token.start
        body = token.string.lstrip("#").removeprefix(" ")
        trails = bool(token.line[:column].strip())
        if trails or (row - 1, column) != last:
            yield from markdown.of_lines(block)
            block = []
        last = (0, -1) if trails else (row, column)
        if not NO_PROSE.match(body):
            block.append(Line(row, body))
    yield from markdown.of_lines(block)


def messages(nodes: Sequence[ast.AST]) -> Iterator[list[Line]]:
    """Yield the paragraphs of message literals, with each value of an f-string as one word."""
    left_out = {id(node) for node in _documentation(nodes)}
    helps: set[int] = set()
    for node in nodes:
        match node:
            case ast.Call():
                left_out |= _patterns(node)
                helps |= _helps(node)
            case ast.JoinedStr() if id(node) not in left_out:
                left_out |= {id(part) for part in ast.walk(node) if _is_string(part)}
                parts = (v.value if isinstance(v, ast.Constant) else CODE for v in node.values)
                yield from _message("".join(map(str, parts)), node, id(node) in helps)
            case ast.Constant(value=str(text)) if id(node) not in left_out:
                yield from _message(text, node, id(node) in helps)


def _message(text: str, node: ast.expr, is_help: bool) -> Iterator[list[Line]]:
    is_long = len(text.split()) >= MESSAGE_WORDS
    is_manifest = len(_MANIFEST_LINE.findall(text)) >= _MANIFEST_LINES
    text = _PRINTED_COMMENT.sub("", text)
    if (is_long or is_help) and "\r" not in text and not is_manifest:
        yield from _string(text.lstrip(), node.lineno)


def _documentation(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as constant):
                    yield constant


def _patterns(call: ast.Call) -> set[int]:
    """Return the identities of string arguments that are regular expressions."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="re")):
            return {id(part) for argument in call.args for part in ast.walk(argument)}
    return set()


def _helps(call: ast.Call) -> set[int]:
    """Return the identities of string arguments that are help texts."""
    found = {id(keyword.value) for keyword in call.keywords if keyword.arg in _HELP}
    match call:
        case ast.Call(func=ast.Name(id=name), args=[_, text, *_]) if name in _METRICS:
            found.add(id(text))
    return found


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr)


def _string(text: str, first: int) -> Iterator[list[Line]]:
    lines = text.expandtabs().splitlines()
    margin = min((len(s) - len(s.lstrip()) for s in lines[1:] if s.strip()), default=0)
    clean = [s.strip() if n == 0 else s[margin:] for n, s in enumerate(lines)]
    plain = "\n".join("" if s.lstrip().startswith(">>>") else s for s in clean)
    for block in markdown.paragraphs(plain):
        yield [Line(line.number + first - 1, line.text) for line in block]
