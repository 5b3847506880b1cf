"""Readers: what passes of a value, and that nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.nodeapi import json_filters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
READERS = (
    json_filters.read_count,
    json_filters.read_number,
    json_filters.read_bool,
    json_filters.read_text,
    json_filters.read_time,
)


@pytest.mark.parametrize(
    ("reader", "passes", "stays"),
    [
        (json_filters.read_count, [0, 2**64 - 1], [-1, 2**64, 1.0, True, "1", None]),
        (json_filters.read_number, [0, -9, 2**31 - 1], [2**31, -(2**31), 1.0, False, "1", None]),
        (json_filters.read_bool, [True, False], [0, 1, "true", None]),
        (
            json_filters.read_text,
            ["", "a b", "ü", "x" * 4096],
            ["x" * 4097, "a\nb", "\0", "\u202e", 5, None],
        ),
        (
            json_filters.read_time,
            ["2026-11-22T17:00:00Z", "2026-11-22T17:00:00.123456789Z"],
            ["2026-13-22T17:00:00Z", "2026-11-22", "2026-11-22T17:00:00+00:00", "", 5, None],
        ),
    ],
)
def test_a_reader_shows_one_kind_of_value(reader, passes, stays):
    """As it is, or not at all."""
    assert [reader(value) for value in passes] == passes
    assert [reader(value) for value in stays] == [None] * len(stays)


@given(JSON)
def test_readers_never_fail(value):
    """Whatever a kubelet sends, no object or list passes a reader of one value."""
    for reader in READERS:
        found = reader(value)
        assert found is None or (found == value and not isinstance(found, dict | list))
        inside = json_filters.read_fields({"a": reader})(value)
        assert inside is None or inside.keys() <= {"a"}
        assert json_filters.read_list(reader)(value) is None or isinstance(value, list)
