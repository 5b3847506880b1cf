"""The tables of docs/performance.md say what the reports in bench/results say."""

import json
import math
import shutil
from pathlib import Path

import pytest

from bench import tables
from bench.report import at
from bench.tables import KEPT, PAGE, Line


def test_the_page_has_the_figures_of_the_reports():
    before = PAGE.read_text()
    assert before == tables.page(before), "run `python -m bench.tables`"


def test_another_figure_is_another_page(tmp_path: Path):
    shutil.copytree(KEPT, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "pods-burst-bare.json"
    results = json.loads(file.read_text())
    for each in results["runs"]["syncer"]:
        each["pods_per_s"] = 12345.0
    file.write_text(json.dumps(results))
    before = PAGE.read_text()
    assert "12345" in tables.page(before, tmp_path)
    assert "12345" not in before


def test_a_page_without_room_for_tables_is_left_alone():
    with pytest.raises(ValueError, match="lacks the lines"):
        tables.page("no marks")


@pytest.mark.parametrize(
    ("figure", "is_least", "told"),
    [
        (10.0, False, "10: kept"),
        (10.1, False, "10: missed"),
        (9.9, True, "10: missed"),
        (math.nan, False, "10: missed"),
    ],
)
def test_a_goal_is_kept_or_missed(figure: float, is_least: bool, told: str):
    assert Line("x", at("x"), 10, is_least=is_least).verdict(figure) == told
    assert Line("x", at("x")).verdict(figure) == ""
