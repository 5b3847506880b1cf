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

_MARK_PATTERN = re.compile(rb"\s*(?P<mark>[\[\]{},:]?)\s*")
_SCAN_WINDOW_BYTES = 64 * 1024
_scan = json.JSONDecoder().raw_decode


class PodListError(Exception):
    """The kubelet's answer is no list of pods."""


def iterate_items(document: bytes) -> Iterator[Any]:
    """Yield each item as it is listed. Raises PodListError, possibly after some items."""
    try:
        yield from _iterate_list_items(document)
    except (ValueError, RecursionError) as error:
        raise PodListError("the kubelet's list of pods cannot be read") from error


def _iterate_list_items(text: bytes) -> Iterator[Any]:
    """Parse the members of the list and yield the items of `iterate_items`. Raises ValueError."""
    times = 0
    at, mark = _skip_mark(text, 0, b"{")
    while mark != b"}":
        key, at = _read_value(text, at)
        at, _ = _skip_mark(text, at, b":")
        if key == "items":
            times += 1
            at = yield from _iterate_array(text, at)
        else:
            _, at = _read_value(text, at)
        at, mark = _skip_mark(text, at, b",}")
    if times != 1 or at != len(text):
        raise ValueError("the list is not a single list, or has data after it")


def _iterate_array(text: bytes, at: int) -> Generator[Any, None, int]:
    """Yield the items of an array, or of null. Return the offset of its end."""
    if not text.startswith(b"[", at):
        nothing, at = _read_value(text, at)
        if nothing is not None:
            raise ValueError("the items are not a list")
        return at
    end, mark = _skip_mark(text, at + 1, b"]", is_optional=True)
    at = end
    while mark != b"]":
        item, at = _read_value(text, at)
        at, mark = _skip_mark(text, at, b",]")
        yield item
    return at


def _read_value(text: bytes, at: int) -> tuple[Any, int]:
    """Return the value that begins at an offset, and its end. Raises ValueError.

    A window is decoded as one byte per letter, so its offsets equal those of the bytes. A value
    with non-ASCII letters is parsed again as UTF-8.
    """
    size = _SCAN_WINDOW_BYTES
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


def _skip_mark(
    text: bytes, at: int, wanted: bytes, *, is_optional: bool = False
) -> tuple[int, bytes]:
    """Skip one of the wanted marks and the space around it. Return the end and the mark."""
    found = _MARK_PATTERN.match(text, at)
    mark = found["mark"] if found else b""
    if found and mark and mark in wanted:
        return found.end(), mark
    if is_optional and found:
        return found.start("mark"), b""
    raise ValueError(f"{wanted!r} not found at {at}")
