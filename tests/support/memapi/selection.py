"""Label and field selectors of lists and watches. Pure.

Owns the part of their grammar that clients use. A field selector is looked up by its dotted path.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

SelectorTest = Callable[[Mapping[str, Any]], bool]


def of_labels(text: str) -> SelectorTest | None:
    """Return the test of labels for a selector. None if it selects everything."""
    tests = [_requirement(part) for part in _parts(text)]
    return _every(tests) if tests else None


def of_fields(text: str) -> SelectorTest | None:
    """Return the test of an object for a field selector. None if it selects everything."""
    tests = [_field(part) for part in _parts(text)]
    return _every(tests) if tests else None


def _every(tests: list[SelectorTest]) -> SelectorTest:
    return lambda found: all(test(found) for test in tests)


def _parts(text: str) -> Iterator[str]:
    """Cut at commas outside of parentheses."""
    depth, begun = 0, 0
    for at, letter in enumerate(text):
        if letter == "," and not depth:
            yield text[begun:at].strip()
            begun = at + 1
        depth += {"(": 1, ")": -1}.get(letter, 0)
    if text[begun:].strip():
        yield text[begun:].strip()


def _requirement(text: str) -> SelectorTest:
    if text.endswith(")"):
        head, _, inside = text[:-1].partition("(")
        key, word = head.split()
        values = frozenset(value.strip() for value in inside.split(","))
        if word == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if "!=" in text:
        key, _, value = text.partition("!=")
        return lambda labels: labels.get(key) != value
    if "=" in text:
        key, _, value = text.replace("==", "=").partition("=")
        return lambda labels: labels.get(key) == value
    if text.startswith("!"):
        return lambda labels: text[1:] not in labels
    return lambda labels: text in labels


def _field(text: str) -> SelectorTest:
    is_equal = "!=" not in text
    path, _, value = text.replace("==", "=").replace("!=", "=").partition("=")
    parts = path.split(".")

    def test(found: Mapping[str, Any]) -> bool:
        there: Any = found
        for part in parts:
            there = there.get(part) if isinstance(there, Mapping) else None
        return ((there or "") == value) == is_equal

    return test
