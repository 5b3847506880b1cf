"""Violations of the limits, sentence by sentence."""

import pytest

from tools.prose.limits import Row
from tools.prose.sentences import Line, split


def reasons(*sentences: str, is_message: bool = False) -> list[str]:
    lines = [Line(1, text) for text in sentences]
    row = Row("a", [s for line in lines for s in split("a.md", [line], is_message=is_message)])
    return [violation.reason for violation in row.violations()]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The pod runs.", []),
        ("Nobody waits.", ["banned: Nobody"]),
        ("The Secret is made anew.", ["banned: anew"]),
        ("It has no more than two pods.", []),
        ("It runs `nobody`.", []),
        ("The syncer; it waits.", ["semicolon"]),
        ("What is there stays.", ["begins without a noun"]),
        ("What runs there?", []),
        ("One that waits stays.", ["begins without a noun"]),
        ("One replica waits.", []),
        ("pod " * 35, ["mean of 35.0 words"]),
        ("pod " * 36, ["mean of 36.0 words", "36 words"]),
    ],
)
def test_violations_of_one_sentence(sentence, found):
    assert reasons(sentence) == found


def test_few_semicolons_pass():
    assert reasons("A pod; it runs.", *["The pod runs."] * 32) == ["semicolon"]
    assert reasons("A pod; it runs.", *["The pod runs."] * 33) == []


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("what must hold", []),
        ("It wakes nobody", ["banned: nobody"]),
        ("2 runs; 3 pods", ["semicolon"]),
        ("`a; b`", []),
        ("pod " * 36, ["36 words"]),
    ],
)
def test_violations_of_a_table_cell(cell, found):
    row = Row("a", list(split("a.md", [Line(1, cell, is_cell=True)])))
    row.sentences += [s for _ in range(40) for s in split("a.md", [Line(2, "The pod runs.")])]
    assert [violation.reason for violation in row.violations()] == found


def test_cells_do_not_hide_long_sentences():
    row = Row("a", [s for _ in range(9) for s in split("a.md", [Line(1, "1 pod", is_cell=True)])])
    row.sentences += split("a.md", [Line(2, "pod " * 30)])
    assert row.mean == 30


def test_fragment_may_begin_with_pronoun():
    assert reasons("what it has is removed", is_message=True) == []
    assert reasons("What it has is removed", is_message=True) == ["begins without a noun"]


def test_listed_line_has_place_and_reason():
    row = Row("a", list(split("a.md", [Line(3, "Nobody runs `ls -l`.")])))
    assert row.listed() == ["a.md:3: banned: Nobody: Nobody runs `..`."]
