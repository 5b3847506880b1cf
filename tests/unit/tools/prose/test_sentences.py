"""Words and sentences are counted as a reader counts them."""

import pytest

from tools.prose.sentences import CODE, Line, split


def texts(text: str) -> list[str]:
    return [s.shown for s in split("a.md", [Line(1, text)])]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One pod. Two pods.", ["One pod.", "Two pods."]),
        ("Wait, e.g. 30 s. Then go.", ["Wait, e.g. 30 s.", "Then go."]),
        ("Version 1.36 runs.", ["Version 1.36 runs."]),
        ("(It runs.) It ends!", ["(It runs.)", "It ends!"]),
        ("**Delete** the [page](a.md#b).", ["Delete the [page]."]),
        ("---", []),
    ],
)
def test_sentences_of_text(text, sentences):
    assert texts(text) == sentences


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Run `kubectl get pods -A` now.", 3),
        ("See https://example.com/a?b=c now.", 3),
        (f"{CODE} is missing.", 3),
        ("Up to 20 % of it.", 6),
        ("A word - and a dash.", 5),
    ],
)
def test_word_count(text, count):
    (sentence,) = split("a.md", [Line(1, text)])
    assert sentence.words == count


def test_line_is_that_of_first_word():
    lines = [Line(7, "A pod"), Line(8, "runs. It is"), Line(9, "ready.")]
    assert [s.line for s in split("a.md", lines)] == [7, 8]


def test_lower_case_message_is_fragment():
    assert [s.is_fragment for s in split("a", [Line(1, "what it has")], is_message=True)] == [True]
    assert [s.is_fragment for s in split("a", [Line(1, "what it has")])] == [False]
