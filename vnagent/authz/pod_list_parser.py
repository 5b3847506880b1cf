"""The pods of a kubelet's list, one after the other. Pure.

Owns the frame around them. Must not know whose they are. Hazard: a list may have tens of megabytes.
A parser that reads it in one call does not let go of the interpreter, and everybody's streams stand
still; all of it read is several times as large, and so is its text where one letter is not of
ASCII. So one pod is read at a time, out of a window.
"""

import json
import re
from collections.abc import Generator, Iterator
from typing import Any

_MARK = re.compile(rb"\s*(?P<mark>[\[\]{},:]?)\s*")
_WINDOW = 64 * 1024
_scan = json.JSONDecoder().raw_decode


class PodListError(Exception):
    """The kubelet's answer is no list of pods."""


def items(document: bytes) -> Iterator[Any]:
    """Yield each item as it is listed; raises PodListError, maybe after some."""
    try:
        yield from _items(document)
    except (ValueError, RecursionError) as error:
        raise PodListError("the kubelet's list of pods cannot be read") from error


def _items(text: bytes) -> Iterator[Any]:
    """Walk over the members of the list, of which one has the items. Raises ValueError."""
    times = 0
    at, mark = _pass(text, 0, b"{")
    while mark != b"}":
        key, at = _read(text, at)
        at, _ = _pass(text, at, b":")
        if key == "items":
            times += 1
            at = yield from _walk(text, at)
        else:
            _, at = _read(text, at)
        at, mark = _pass(text, at, b",}")
    if times != 1 or at != len(text):
        raise ValueError("there is not one list, or something behind it")


def _walk(text: bytes, at: int) -> Generator[Any, None, int]:
    """Yield the items of an array, or of null; return where it ends."""
    if not text.startswith(b"[", at):
        nothing, at = _read(text, at)
        if nothing is not None:
            raise ValueError("the items are no list")
        return at
    end, mark = _pass(text, at + 1, b"]", is_optional=True)
    at = end
    while mark != b"]":
        item, at = _read(text, at)
        at, mark = _pass(text, at, b",]")
        yield item
    return at


def _read(text: bytes, at: int) -> tuple[Any, int]:
    """Return the value that begins somewhere, and where it ends; raises ValueError.

    Of one byte a letter, a window has the same places as what it is taken from; what has other
    letters is read again for what they say.
    """
    size = _WINDOW
    while True:
        window = text[at : at + size].decode("latin-1")
        is_last = at + size >= len(text)
        try:
            value, length = _scan(window)
        except ValueError:
            if is_last:
                raise
        else:
            if length < len(window) or is_last:  # a number may go on behind the window
                raw = text[at : at + length]
                return (value if raw.isascii() else json.loads(raw.decode())), at + length
        size *= 8


def _pass(text: bytes, at: int, wanted: bytes, *, is_optional: bool = False) -> tuple[int, bytes]:
    """Pass one of the wanted marks and the space around it; return where that ends, and which."""
    found = _MARK.match(text, at)
    mark = found["mark"] if found else b""
    if found and mark and mark in wanted:
        return found.end(), mark
    if is_optional and found:
        return found.start("mark"), b""
    raise ValueError(f"none of {wanted!r} at {at}")
