"""The pods of a kubelet's list, one after the other. Pure.

Owns the frame around them. Must not know whose they are. Hazard: a list may have tens of megabytes.
A parser that reads it in one call does not let go of the interpreter, and everybody's streams stand
still; all of it read is several times as large. So one pod is read at a time.
"""

import json
import re
from collections.abc import Generator, Iterator
from typing import Any

_MARK = re.compile(r"\s*(?P<mark>[\[\]{},:]?)\s*")
_read = json.JSONDecoder().raw_decode


class PodListError(Exception):
    """The kubelet's answer is no list of pods."""


def items(document: bytes) -> Iterator[Any]:
    """Yield each item as it is listed; raises PodListError, maybe after some."""
    try:
        yield from _items(document.decode())
    except (ValueError, RecursionError) as error:
        raise PodListError("the kubelet's list of pods cannot be read") from error


def _items(text: str) -> Iterator[Any]:
    """Walk over the members of the list, of which one has the items. Raises ValueError."""
    times = 0
    at, mark = _pass(text, 0, "{")
    while mark != "}":
        key, at = _read(text, at)
        at, _ = _pass(text, at, ":")
        if key == "items":
            times += 1
            at = yield from _walk(text, at)
        else:
            _, at = _read(text, at)
        at, mark = _pass(text, at, ",}")
    if times != 1 or at != len(text):
        raise ValueError("there is not one list, or something behind it")


def _walk(text: str, at: int) -> Generator[Any, None, int]:
    """Yield the items of an array, or of null; return where it ends."""
    if not text.startswith("[", at):
        nothing, at = _read(text, at)
        if nothing is not None:
            raise ValueError("the items are no list")
        return at
    end, mark = _pass(text, at + 1, "]", is_optional=True)
    at = end
    while mark != "]":
        item, at = _read(text, at)
        at, mark = _pass(text, at, ",]")
        yield item
    return at


def _pass(text: str, at: int, wanted: str, *, is_optional: bool = False) -> tuple[int, str]:
    """Pass one of the wanted marks and the space around it; return where that ends, and which."""
    found = _MARK.match(text, at)
    mark = found["mark"] if found else ""
    if found and mark and mark in wanted:
        return found.end(), mark
    if is_optional and found:
        return found.start("mark"), ""
    raise ValueError(f"none of {wanted} at {at}")
