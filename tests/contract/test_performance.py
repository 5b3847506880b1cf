"""The tables of docs/performance.md say what the reports in bench/results say."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.reports import tables
from bench.reports.report import at
from bench.reports.tables import KEPT, PAGE, GoalLine


def test_the_page_has_the_figures_of_the_reports():
    before = PAGE.read_text()
    assert before == tables.page(before), "run `python -m bench.reports.tables`"


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
    assert GoalLine("x", at("x"), 10, is_least=is_least).verdict(figure) == told
    assert GoalLine("x", at("x")).verdict(figure) == ""


def told(folder: Path, name: str, runs: dict[str, Any], **more: Any) -> str:
    """Return what the page would say of a report."""
    noise = {"median_ms": 30.0, "spread": 0.0, "load_1min": 0.5}
    report = {"noise": noise, "runs": runs, **more}
    (folder / f"{name}.json").write_text(json.dumps(report))
    return tables.text(folder)


def test_a_report_that_lacks_a_figure_lacks_its_row(tmp_path: Path):
    text = told(tmp_path, "memory-held-bare-100x10000", {"held": [{"restart": {"in_step_s": 4.0}}]})
    assert "| Lease to in step s | 4.00 | 5: kept |" in text
    assert "churn" not in text
    assert "first new pod" not in text


def test_what_a_restart_in_a_churn_writes_beyond_it_has_a_row(tmp_path: Path):
    restart = {
        "lease_s": 7.0,
        "in_step_s": 4.0,
        "kill_to_in_step_s": 11.0,
        "kill_to_first_new_pod_s": 9.0,
        "writes_beyond": 2,
        "churned": 250,
    }
    held = {"restart": restart, "pods_per_s": 1234.0}
    text = told(tmp_path, "memory-held-bare-100x10000", {"held": [held]})
    for row in (
        "| pods/s, all tenants making them at once | 1234 |  |",
        "| kill -9 to the Lease s | 7.00 |  |",
        "| kill -9 to in step s | 11.0 | 5: missed |",
        "| kill -9 to the first new pod Ready s | 9.00 |  |",
        "| its writes beyond those of the churn's lives | 2.00 | 0: missed |",
    ):
        assert row in text


def test_too_few_beside_the_greedy_is_a_goal_that_is_missed(tmp_path: Path):
    few = {"p99_to_alone": 1.0, "beside_pods": 156, "storm_changes": 900, "storm_writes": 300}
    text = told(tmp_path, "memory-fairness-bare-50x200", {"fairness": [few]})
    assert "| regular pods made beside the greedy | 156 | 300: missed |" in text
    assert "| writes upward for them | 300 |  |" in text


def test_requests_of_nodes_are_none_of_a_pods_life(tmp_path: Path):
    each = {
        "super create pods": 1.0,
        "super list pods": 0.005,
        "super watch pods": 0.01,
        "tenant create pods/binding": 1.0,
        "tenant patch pods/status": 3.0,
        "tenant patch nodes": 0.035,
        "tenant patch nodes/status": 0.035,
        "tenant create events": 1.0,
    }
    text = told(tmp_path, "pods-burst-bare-audit", {"syncer": [{"calls": {"each": each}}]})
    assert "| writes of pods per life | 5.00 | 5: kept |" in text
    assert "| reads of a pod per life | 0.00 | 0: kept |" in text
    assert "| writes of nodes per life | 0.07 |  |" in text
    each["super get pods"] = 0.5
    text = told(tmp_path, "pods-burst-bare-audit", {"syncer": [{"calls": {"each": each}}]})
    assert "| reads of a pod per life | 0.50 | 0: missed |" in text


def run(pods_per_s: float, foreign: float = 0.0) -> dict[str, Any]:
    return {
        "pods_per_s": pods_per_s,
        "ready_ms": {"p50": 10.0, "p99": 20.0},
        "delete_s": 2.0,
        "cpu_s_per_1000": {"syncer": 1.0},
        "foreign_cores": foreign,
    }


@pytest.mark.parametrize(
    ("again", "verdict"), [(95.0, "kept"), (80.0, "missed"), (120.0, "missed")]
)
def test_a_way_beside_itself_reports_the_noise(tmp_path: Path, again: float, verdict: str):
    runs = {
        way: [run(each, 0.25)]
        for way, each in (("direct", 100.0), ("direct 2", again), ("replay", 50), ("syncer", 40))
    }
    text = told(tmp_path, "pods-burst-bare", runs)
    assert f"| direct, pods/s | {again / 100:.2f} | 0.9 to 1.1: {verdict} |" in text
    assert "the load before was 0.5, other programs used 0.25 cores:" in text


def test_a_way_that_ran_once_is_not_beside_itself(tmp_path: Path):
    runs = {way: [run(100.0)] for way in ("direct", "replay", "syncer")}
    assert "beside itself" not in told(tmp_path, "pods-burst-bare", runs)


def test_loads_without_a_goal_stand_beside_each_other(tmp_path: Path):
    runs = {way: [run(each)] for way, each in (("direct", 100.0), ("syncer", 40.0))}
    text = told(tmp_path, "pods-storm-bare-100", runs)
    assert "| | direct | syncer |" in text
    assert "| pods/s | 100 | 40.0 |" in text


def test_a_page_beyond_its_goal_is_missed(tmp_path: Path):
    times = {"p50_ms": 10.0, "p95_ms": 301.0, "worst_ms": 400.0}
    found = {"tenants": {**times, "p95_ms": 20.0}, "pod": times}
    text = told(tmp_path, "pages", {"pages": [found]}, goal_ms=300.0)
    assert "| tenants | 10 | 20 | 300: kept |" in text
    assert "| pod | 10 | 301 | 300: missed |" in text


def test_helps_are_two_rows_and_each_call_is_one(tmp_path: Path):
    def command(name: str, own: float, goal: float) -> dict[str, Any]:
        times = {"kubectl_ms": 50.0, "kubectl_vc_ms": own + 50, "own_ms": own, "own_best_ms": own}
        return {
            **times,
            "command": name,
            "beside": "kubectl x",
            "own_cpu_ms": own,
            "ratio": 2.04,
            "goal_ms": goal,
        }

    helps = [command(f"verb-{each} --help", 100.0 + each, 150.0) for each in range(3)]
    text = told(tmp_path, "verbs", {}, commands=[*helps, command("list -A", 301.0, 300.0)])
    assert "| help, the median of 3: `verb-1 --help` | 50 | 151 | 2.0 | 101 | 101" in text
    assert "| help, the slowest: `verb-2 --help` | 50 | 152 | 2.0 | 102 |" in text
    assert (
        "| `list -A` beside `kubectl x` | 50 | 351 | 2.0 | 301 | 301 | 301 | 300: missed |" in text
    )
