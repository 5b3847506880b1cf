"""Framing: whatever the chunks, the same lines. Whatever is cut off was never said."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio import errors
from kubeio.http import watch_decoder
from tests.support.kubeio.described_requests import REQUEST


def _lines(parts):
    found = watch_decoder.LineDecoder()
    lines = [line for part in parts for line in found.feed(part)]
    found.finish(REQUEST)
    return lines


def _line(kind, body) -> bytes:
    return orjson.dumps({"type": kind, "object": body})


@given(
    lines=st.lists(st.binary(min_size=1, max_size=40).filter(lambda b: b"\n" not in b)),
    cuts=st.lists(st.integers(min_value=0, max_value=500)),
)
def test_chunks_do_not_matter(lines, cuts):
    whole = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    assert _lines([whole[a:b] for a, b in pairwise(edges)]) == lines


def test_a_line_may_be_as_long_as_it_is():
    line = _line("ADDED", {"data": "x" * 5_000_000})
    whole = line + b"\n"
    assert _lines([whole[at : at + 1000] for at in range(0, len(whole), 1000)]) == [line]


def test_what_ends_inside_a_line_was_cut():
    """REL-49."""
    found = watch_decoder.LineDecoder()
    assert found.feed(b"whole\nhal") == [b"whole"]
    with pytest.raises(errors.Unavailable, match=f"{REQUEST}: the stream was cut"):
        found.finish(REQUEST)


def test_an_error_event_is_the_error():
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(errors.Gone, match=f"{REQUEST}: too old"):
        watch_decoder.parse_event(_line("ERROR", status), REQUEST)


@pytest.mark.parametrize(
    "line", [b"not json", b"{}", b'{"type":"X","object":{}}', b'{"type":1,"object":{}}', b"\xff"]
)
def test_what_is_no_event_is_a_broken_stream(line):
    """REL-49."""
    with pytest.raises(errors.Unavailable, match=str(REQUEST)):
        watch_decoder.parse_event(line, REQUEST)


def test_numbers_and_unknown_fields_survive():
    body = {"x": 9007199254740993, "y": 1.5, "z": None, "new": {"a": [1, {}]}}
    found = watch_decoder.parse_event(_line("MODIFIED", body), REQUEST)
    assert (found.type, found.decode()) == ("MODIFIED", body)


def test_an_endless_line_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(watch_decoder, "MAX_LINE_BYTES", 100)
    lines = watch_decoder.LineDecoder()
    for _ in range(5):
        assert lines.feed(b"x" * 60 + b"\n") == [b"x" * 60]  # many lines may be long together
    assert lines.feed(b"x" * 100) == []
    with pytest.raises(errors.Unavailable, match=f"{REQUEST}: a line of more than 100 bytes"):
        lines.feed(b"x", REQUEST)


def test_an_unfinished_line_takes_the_memory_of_its_bytes_however_small_the_chunks():
    """REL-77: an object per chunk of eight bytes would take six times as much."""
    lines = watch_decoder.LineDecoder()
    tracemalloc.start()
    try:
        for _ in range(100_000):
            assert lines.feed(bytes(8)) == []
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines.pending_bytes == 800_000
    assert used < 1_200_000
    assert lines.feed(b"\n\nx") == [bytes(800_000)]
    assert lines.pending_bytes == 1
