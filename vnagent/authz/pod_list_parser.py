"""Incremental parser of a kubelet's list of pods. Pure.

The module owns the frame around the pods. It must not know their owners. Hazard: one pod must be
parsed at a time, from a window of the bytes, because a list may have tens of megabytes. Otherwise
one parser call keeps the interpreter lock and all streams stand still. The parsed list is several
times as large as the bytes. So is its text if one letter is not ASCII.
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
    """Yield each item as it is listed. Raises PodListError, possibly after some items."""
    try:
        yield from _items(document)
    except (ValueError, RecursionError) as error:
        raise PodListError("the kubelet's list of pods cannot be read") from error


def _items(text: bytes) -> Iterator[Any]:
    """Parse the members of the list and yield the items of `items`. Raises ValueError."""
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
    """Yield the items of an array, or of null. Return the offset of its end."""
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
    """Return the value that begins at an offset, and its end. Raises ValueError.

    A window is decoded as one byte per letter, so its offsets equal those of the bytes. A value
    with non-ASCII letters is parsed again as UTF-8.
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
            if length < len(window) or is_last:  # a number may continue behind the window
                raw = text[at : at + length]
                return (value if raw.isascii() else json.loads(raw.decode())), at + length
        size *= 8


def _pass(text: bytes, at: int, wanted: bytes, *, is_optional: bool = False) -> tuple[int, bytes]:
    """Skip one of the wanted marks and the space around it. Return the end and the mark."""
    found = _MARK.match(text, at)
    mark = found["mark"] if found else b""
    if found and mark and mark in wanted:
        return found.end(), mark
    if is_optional and found:
        return found.start("mark"), b""
    raise ValueError(f"none of {wanted!r} at {at}")
