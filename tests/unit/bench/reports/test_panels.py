"""Panels of each kept report."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.reports import panels
from bench.reports.panels import unit_of

RESULTS = sorted((Path(__file__).parents[4] / "bench" / "results").glob("*.json"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_report_has_something_to_show(file: Path):
    found = panels.panels(json.loads(file.read_text()))
    assert found
    for panel in found:
        assert 0 < len(panel.bars) <= panels.MOST
        assert all(bar.count for bar in panel.bars.values())


def test_there_is_a_report_of_each_program():
    begins = {file.stem.split("-")[0] for file in RESULTS}
    assert begins >= {"pods", "memory", "agent", "provision", "quiet"}


@pytest.mark.parametrize(
    ("title", "unit"),
    [
        ("burst ready ms p99", "ms"),
        ("burst create s", "s"),
        ("burst cpu s per 1000 syncer", "CPU-s per thousands"),
        ("held restart cpu s", "CPU-s"),
        ("held memory with rss mib", "MiB"),
        ("logs, 16384 B lines, 1 at once, agent, MB/s", "MB/s"),
        ("logs, 16384 B lines, 1 at once, agent to kubelet", "ratio"),
        ("memory, silent, KiB each", "KiB"),
        ("fairness p99 to alone", "ratio"),
        ("alone first request s", "s"),
    ],
)
def test_figures_of_one_unit_stand_together(title: str, unit: str):
    assert unit_of(title) == unit


def test_ways_beside_each_other_are_compared_by_what_is_felt():
    runs: dict[str, Any] = {
        way: [{"pods_per_s": 10.0}, {"pods_per_s": 12.0}] for way in ("direct", "syncer")
    }
    (panel,) = panels.panels({"runs": runs})
    assert (panel.title, list(panel.bars)) == ("pods/s", ["direct", "syncer"])
    assert (panel.bars["direct"].low, panel.bars["direct"].high) == (10.0, 12.0)


def test_tenants_made_at_once_are_shown():
    took = {"first_request_s": 9.0}
    results = {
        "alone": [took],
        "create": {"a": took},
        "idle": {},
        "at_once": {"each": {"a": took, "b": took}, "all_s": 20.0, "manager_cpu_s": 2.0},
    }
    shown = {title for panel in panels.panels(results) for title in panel.bars}
    assert shown >= {"at once first request s", "at once all s", "at once manager cpu s"}
