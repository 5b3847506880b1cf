"""Written documents are read with the same meaning by readers of YAML 1.1 and 1.2."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubeio.api.yaml_writer import to_yaml

WORDS = ["y", "N", "08", "1e5", "12e4", "0o7", "7e-3", "123", "1-2", "2026-1-2", "-1e5", ".5", "+1"]


@pytest.mark.parametrize("word", WORDS)
def test_what_some_reader_takes_for_something_else_is_quoted(word):
    assert to_yaml({"name": word}) == f"name: '{word}'\n"


def test_what_is_no_string_is_not():
    assert to_yaml({"a": 1, "b": True, "c": None, "d": 1.5}) == "a: 1\nb: true\nc: null\nd: 1.5\n"


@given(st.recursive(st.text() | st.integers() | st.booleans(), st.lists, max_leaves=5))
def test_what_is_written_is_read_again(value):
    assert yaml.safe_load(to_yaml({"a": value})) == {"a": value}
