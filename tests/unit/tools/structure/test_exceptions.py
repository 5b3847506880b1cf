"""Exceptions that may only shrink."""

import pytest

from tools.structure import exceptions
from tools.structure.exceptions import Exemption

ALLOWED = {"Verdict": Exemption(2, "It will be renamed.")}


@pytest.mark.parametrize(
    ("found", "part"),
    [
        ({"Verdict": 3}, "3 found, and 2 are allowed"),
        ({"Verdict": 1}, "--record"),
        ({}, "--record"),
        ({"Verdict": 2, "Row": 2}, "2 found, and 0 are allowed"),
    ],
)
def test_other_numbers_are_problems(found, part):
    (problem,) = exceptions.problems(found, ALLOWED)
    assert part in problem


def test_recorded_number_with_reason_passes():
    assert exceptions.problems({"Verdict": 2}, ALLOWED) == []


def test_exception_needs_reason():
    (problem,) = exceptions.problems({"Row": 2}, {"Row": Exemption(2, " ")})
    assert "no reason" in problem


def test_record_keeps_reasons_and_drops_what_is_over(tmp_path):
    file = tmp_path / "structure.yaml"
    exceptions.record({"classes": {"Row": 2, "Verdict": 3}}, file)
    file.write_text(file.read_text().replace("reason: ''", "reason: why", 1))
    exceptions.record({"classes": {"Row": 1, "Pair": 2}}, file)
    assert exceptions.recorded(file) == {
        "classes": {"Row": Exemption(1, "why"), "Pair": Exemption(2, "")}
    }
