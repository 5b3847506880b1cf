"""Each row of reliability has a test that carries its id, or a reason, and the page says so."""

import pytest

from tests.rows import carried, page, table
from tests.rows.carried import Shown
from tests.support import sections

ROW = """
A group:
- id: REL-01
  asks: nothing is lost
"""
TESTED = {"REL-01": [Shown("unit/test_a.py", "test_nothing_is_lost")]}


def test_every_row_has_a_test_or_a_reason():
    assert page.problems(table.rows(), carried.in_tests()) == []


def test_the_committed_page_is_what_the_program_writes():
    body = page.render(table.rows(), carried.in_tests()).strip()
    assert sections.get(page.PAGE.read_text(), page.TITLE) == body, "run `python -m tests.rows`"


def test_no_row_is_forgotten():
    asked = {
        "REL": [*range(1, 55), *range(76, 96)],
        "SEC": [*range(1, 23)],
        "V": [*range(1, 11)],
        "X": [26],
    }
    wanted = {f"{letters}-{number:02}" for letters, numbers in asked.items() for number in numbers}
    assert {row.id for row in table.rows()} == wanted


@pytest.mark.parametrize(
    ("text", "found", "told"),
    [
        (ROW, TESTED, []),
        (ROW, {}, ["REL-01 has no test"]),
        (ROW + "  lacks: some\n", {}, ["REL-01 has no test"]),
        (ROW + "  left_out: no means\n", {}, []),
        (ROW + "  left_out: no means\n", TESTED, ["REL-01 is left out, and"]),
        (ROW, {**TESTED, "REL-96": TESTED["REL-01"]}, ["carries REL-96"]),
        (ROW, {**TESTED, "SEC-125": TESTED["REL-01"]}, ["carries SEC-125"]),
    ],
)
def test_what_has_no_word_is_told(text, found, told):
    problems = page.problems(table.rows(text), found)
    assert len(problems) == len(told)
    assert all(word in problem for word, problem in zip(told, problems, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        ROW + "- id: REL-01\n  asks: the same once more\n",
        ROW + "  lacks: x\n  left_out: y\n",
        ROW.replace("nothing is lost", '" "'),
    ],
)
def test_a_row_that_does_not_say_what_it_must_is_refused(text):
    with pytest.raises(ValueError, match=r"rows\.yaml"):
        table.rows(text)


def test_only_tests_carry_ids_and_each_once():
    source = '''
def helper():
    """REL-01."""


async def test_one():
    """REL-02, REL-03: and REL-02 once more."""


def test_other():
    """SEC-07, V-06, X-26, and no X-2 or CVE-2018-1002105."""


def test_third():
    """Nothing."""
'''
    assert list(carried.in_source(source)) == [
        ("test_one", ["REL-02", "REL-03"]),
        ("test_other", ["SEC-07", "V-06", "X-26"]),
    ]


def test_a_section_is_put_where_it_stood_and_others_stay():
    text = sections.put("# Page\n\nWords.\n\n## A\n\none\n\n## B\n\ntwo\n", "A", "three")
    assert text == "# Page\n\nWords.\n\n## A\n\nthree\n\n## B\n\ntwo\n"
    text = sections.put(text, "C", "four\n\n### part\n")
    assert text.endswith("two\n\n## C\n\nfour\n\n### part\n")
    assert sections.get(text, "C") == "four\n\n### part"
    assert sections.get(text, "D") == ""
    assert sections.put(text, "B", "two") == text
