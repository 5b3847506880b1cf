"""Control characters: none reaches a terminal, and a document stays the same document."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.control_characters import escape_control_characters


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain text, ä and 漢", "plain text, ä and 漢"),
        ("tab\t and\nline", "tab\t and\nline"),
        ("\x1b[2J\x1b]0;title\x07", "\\u001b[2J\\u001b]0;title\\u0007"),
        ("a\rb\x08\x00\x7f", "a\\u000db\\u0008\\u0000\\u007f"),
        ("\x9b31m", "\\u009b31m"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text, escaped):
    """SEC-55: escape sequences, marks of direction and halves of pairs."""
    assert escape_control_characters(text) == escaped


@given(st.text())
def test_a_document_in_json_stays_the_same(text):
    document = json.dumps({"a": text}, ensure_ascii=False)
    assert json.loads(escape_control_characters(document)) == {"a": text}
    assert escape_control_characters(escape_control_characters(text)).isprintable() or {
        each for each in escape_control_characters(text) if not each.isprintable()
    }.isdisjoint("\x1b\x9b\x07\r\x7f")
