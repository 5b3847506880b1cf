"""Each row has a test that carries its id, or a reason, and its page says so."""

from pathlib import Path

import pytest

from tests.support import sections
from tools.rows import calls, carried, page, results, table
from tools.rows.carried import LocatedTest
from tools.rows.page import OFFLOAD, RELIABILITY, RowsPage
from tools.rows.results import RecordedRun

EACH = pytest.mark.parametrize("one", page.PAGES, ids=lambda one: one.file.name)

ROW = """
A group:
- id: REL-01
  asks: nothing is lost
"""
TESTED = {"REL-01": [LocatedTest("unit/test_a.py", "test_nothing_is_lost")]}


@EACH
def test_every_row_has_a_test_or_a_reason(one: RowsPage):
    assert page.problems(one, table.rows(one.rows), carried.in_tests(one.ids)) == []


@EACH
def test_the_committed_page_is_what_the_program_writes(one: RowsPage):
    found = carried.in_tests(one.ids)
    body = page.render(one, table.rows(one.rows), found, results.known()).strip()
    assert sections.get(one.file.read_text(), page.TITLE) == body, "run `python -m tools.rows`"


def test_no_row_is_forgotten():
    asked = {
        "REL": [
            *range(1, 55),
            *range(74, 96),
            *range(110, 114),
            *range(120, 123),
            *range(160, 170),
            *range(130, 136),
        ],
        "SEC": [
            *range(1, 23),
            *range(40, 45),
            *range(50, 57),
            *range(60, 68),
            *range(70, 74),
            *range(80, 87),
            203,
            204,
            *range(209, 213),
            214,
            231,
            233,
            240,
            241,
            242,
            250,
            251,
            260,
            261,
        ],
        "V": [*range(1, 11)],
        "X": [26],
    }
    wanted = {f"{letters}-{number:02}" for letters, numbers in asked.items() for number in numbers}
    assert {row.id for row in table.rows(RELIABILITY.rows)} == wanted
    posts = {0: range(1, 25), 1: range(1, 18), 2: range(1, 17), 4: (8, *range(10, 16))}
    assert [row.id for row in table.rows(OFFLOAD.rows)] == [
        f"A{post}-{number:02}" for post, numbers in posts.items() for number in numbers
    ]


@pytest.mark.parametrize(
    ("noted", "more", "said"),
    [
        ({}, "", "| yes | not run |"),
        ({"unit/test_a.py test_nothing_is_lost": "passed"}, "", "| yes | green |"),
        ({"unit/test_a.py test_nothing_is_lost": "failed"}, "", "| yes | **red** |"),
        ({}, "  lacks: some\n", "| in part | not run |"),
    ],
)
def test_a_page_with_results_reports_what_became_of_the_tests(noted, more, said):
    rows = table.read(ROW + "  priority: P1\n" + more, "rows.yaml")
    noted = RecordedRun(commit="abc1234", date="2026-01-02", tests=noted)
    text = page.render(OFFLOAD, rows, TESTED, noted)
    assert said in text
    assert "| REL-01 | P1 | nothing is lost |" in text
    assert "at commit abc1234 on 2026-01-02." in " ".join(text.split())
    plain = page.render(RELIABILITY, rows, TESTED, noted)
    assert not any(word in plain for word in ("not run", "P1", "abc1234"))


def test_each_row_of_the_posts_has_a_priority_and_the_recording_reports_of_what_it_is():
    rows = table.rows(OFFLOAD.rows)
    assert [row.id for row in rows if row.priority not in table.PRIORITIES] == []
    known = results.known()
    assert known.commit
    assert known.date
    assert set(known.tests.values()) <= {"passed", "failed"}


def test_what_was_recorded_bears_commit_and_date_of_its_newest_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(results, "FILE", tmp_path / "results.yaml")
    case = '<testcase classname="tests.unit.a.test_a" name="{}">{}</testcase>'
    for day, test, word in (("02", "one", ""), ("03", "two", "<failure/>"), ("01", "three", "")):
        suite = (
            f'<testsuite timestamp="2026-01-{day}T10:00:00">{case.format(test, word)}</testsuite>'
        )
        (tmp_path / f"{day}.xml").write_text(f"<testsuites>{suite}</testsuites>")
    wanted = {"unit/a/test_a.py one", "unit/a/test_a.py two"}
    results.note(sorted(tmp_path.glob("*.xml")), wanted, "abc1234")
    said = {"unit/a/test_a.py one": "passed", "unit/a/test_a.py two": "failed"}
    assert results.known() == RecordedRun(commit="abc1234", date="2026-01-03", tests=said)
    results.note([], wanted, "def5678")
    assert results.known() == RecordedRun(commit="def5678", date="2026-01-03", tests=said)


def test_a_report_reports_each_test_once():
    report = """<testsuites><testsuite>
    <testcase classname="tests.node.test_a" name="test_one[x]"/>
    <testcase classname="tests.node.test_a" name="test_one[y]"><failure/></testcase>
    <testcase classname="tests.node.test_a" name="test_one[z]"/>
    <testcase classname="tests.unit.b.test_b" name="test_two"/>
    <testcase classname="tests.unit.b.test_b" name="test_three"><skipped/></testcase>
    </testsuite></testsuites>"""
    assert results.in_report(report) == {
        "node/test_a.py test_one": "failed",
        "unit/b/test_b.py test_two": "passed",
    }


@pytest.mark.parametrize(
    ("text", "found", "told"),
    [
        (ROW, TESTED, []),
        (ROW, {}, ["REL-01 has no test"]),
        (ROW + "  lacks: some\n", {}, ["REL-01 has no test"]),
        (ROW + "  left_out: no means\n", {}, []),
        (ROW + "  left_out: no means\n", TESTED, ["REL-01 is left out, but"]),
        (ROW, {**TESTED, "REL-96": TESTED["REL-01"]}, ["carries REL-96"]),
        (ROW, {**TESTED, "SEC-125": TESTED["REL-01"]}, ["carries SEC-125"]),
    ],
)
def test_a_row_without_a_result_is_reported(text, found, told):
    problems = page.problems(RELIABILITY, table.read(text, "rows.yaml"), found)
    assert len(problems) == len(told)
    assert all(word in problem for word, problem in zip(told, problems, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        ROW + "- id: REL-01\n  asks: the same once more\n",
        ROW + "  lacks: x\n  left_out: y\n",
        ROW.replace("nothing is lost", '" "'),
        ROW + "  priority: P3\n",
    ],
)
def test_a_row_that_lacks_a_required_field_is_refused(text):
    with pytest.raises(ValueError, match=r"rows\.yaml"):
        table.read(text, "rows.yaml")


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
    found = list(carried.in_source(source, RELIABILITY.ids))
    assert found == [
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


def test_each_call_of_kubectl_is_a_test_that_there_is():
    sources = "".join(file.read_text() for file in (carried.TESTS / "node").rglob("test_*.py"))
    named = [name for names in calls.CALLS.values() for name in names]
    assert [name for name in named if f"def {name}(" not in sources] == []


def test_calls_are_counted_by_kubectl_and_kubelet():
    cases = [
        ("tests.node.agent.test_streams", "test_exec_gives_the_exit_code[1.36-leg0-0]", ""),
        ("tests.node.agent.test_streams", "test_exec_gives_the_exit_code[1.36-leg0-1]", ""),
        ("tests.node.agent.test_upstream", "test_exec_gives_the_exit_code[1.36-leg0-0]", ""),
        ("tests.node.agent.test_upstream", "test_exec_gives_the_exit_code[1.36-leg0-1]", "failure"),
        ("tests.node.agent.test_streams", "test_exec_gives_the_exit_code[1.34-leg0-0]", "skipped"),
    ]
    told = "".join(
        f'<testcase classname="{module}" name="{name}">{f"<{end}/>" if end else ""}</testcase>'
        for module, name, end in cases
    )
    found = calls.counted([f"<testsuites>{told}</testsuites>"])
    (line,) = [line for line in calls.render(found, "abc").splitlines() if "exit codes" in line]
    cells = [cell.strip() for cell in line.split("|")[2:-1]]
    assert cells == ["2 passed", "not run", "not run", "**1 of 2 failed**", "not run", "not run"]
