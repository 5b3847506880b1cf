"""Each finding of the security review has tests that exist, or a reason, and its page says so."""

import pytest

from tools.rows import findings
from tools.rows.findings import FILE, IDS, PAGE, ReviewFinding

TEST = "contract/test_findings.py::test_every_finding_has_a_test_or_a_reason"


def build_finding(**changes: object) -> ReviewFinding:
    """Return a finding with a test and a file that exist."""
    fields = {"id": "T2-01", "finding": "f", "fixed": ["Makefile"], "tests": [TEST]}
    return ReviewFinding(**{**fields, **changes})  # type: ignore[arg-type]


def list_changed(**changes: object) -> list[str]:
    """Return the problems of a table whose first finding is changed."""
    others = [build_finding(id=each) for each in IDS[1:]]
    return findings.find_problems([build_finding(**changes), *others])


def test_every_finding_has_a_test_or_a_reason():
    assert findings.find_problems(findings.read(FILE.read_text())) == []


def test_the_committed_page_is_what_the_program_writes():
    found = findings.render(findings.read(FILE.read_text()))
    assert PAGE.read_text() == found, "run `python -m tools.rows`"


def test_a_whole_table_has_no_problem():
    assert list_changed() == []
    assert list_changed(tests=[], stays="It stays ([ADR](adr/0001.md)).") == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "T2-39"}, "must list T2-01 to T2-38"),
        ({"tests": []}, "neither a test nor a page"),
        ({"tests": [], "stays": "It is hard."}, "neither a test nor a page"),
        ({"tests": [f"{TEST}_now"]}, "which is no test"),
        ({"tests": ["contract/test_gone.py::test_it"]}, "which is no test"),
        ({"fixed": ["syncer/gone.py"]}, "syncer/gone.py, which is no file"),
    ],
)
def test_a_finding_without_proof_is_reported(changes: dict[str, object], said: str):
    (problem,) = list_changed(**changes)
    assert said in problem


def test_a_test_without_its_file_is_refused():
    with pytest.raises(ValueError, match="not of the form FILE::TEST"):
        list_changed(tests=["test_it"])
