"""Runs of one quiet hour, and the report about skipped runs."""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import everything
from bench.everything import MINUTES, STEPS, BenchStep
from bench.programs.super_cluster import ROOT
from bench.reports import tables

QUICK = {"module": "platform", "words": "", "small": ""}


def test_it_fits_into_the_time_that_is_promised():
    minutes = sum(step.seconds for step in STEPS) / 60
    assert minutes <= MINUTES <= 60
    assert len({step.name for step in STEPS}) == len(STEPS)
    told = re.search(r"All take (\d+) min", everything.__doc__ or "")
    assert told
    assert minutes <= int(told[1]) <= minutes + 1
    for page in ("Makefile", "docs/performance.md"):
        assert f"{MINUTES} quiet minutes" in (ROOT / page).read_text()


# What a run of each costs is in seconds. A run of those that are left costs minutes.
SHORT = ("burst", "calm", "lives", "hand-over", "hand-over-manager")
LONG = ("held", "fairness", "late", "idle")


def test_what_has_a_goal_runs_often_enough_for_a_spread():
    runs = {step.name: step.runs for step in STEPS}
    assert {name: runs[name] for name in SHORT} == dict.fromkeys(SHORT, 5)
    assert all(runs[name] >= 3 for name in LONG)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_leaves_what_the_page_reports_with_so_many_runs(monkeypatch, step: BenchStep):
    assert set(step.reports) <= set(tables._MAKERS)
    module = importlib.import_module(step.module)
    monkeypatch.setattr(sys, "argv", [step.module, *step.command(small=False)[3:]])
    asked = vars(module.arguments())
    assert step.runs == asked.get("pairs", asked.get("repeat", asked.get("count")))


def report(folder: Path, name: str, commit: str, runs: int) -> None:
    found: dict[str, Any] = {"commit": commit, "runs": {"engage": [{}], "held": [{}] * runs}}
    (folder / f"{name}.json").write_text(json.dumps(found))


def test_a_step_is_finished_when_all_it_leaves_is_of_this_commit_and_whole(tmp_path: Path):
    step = BenchStep(name="x", seconds=0, reports=("one", "two"), runs=3, **QUICK)
    report(tmp_path, "one", "abc", 3)
    assert not step.is_finished(tmp_path, "abc")
    report(tmp_path, "two", "abc", 2)
    assert not step.is_finished(tmp_path, "abc")
    report(tmp_path, "two", "abc", 3)
    assert step.is_finished(tmp_path, "abc")
    assert not step.is_finished(tmp_path, "def")
    report(tmp_path, "one", "", 3)
    report(tmp_path, "two", "", 3)
    assert not step.is_finished(tmp_path, "")
    assert not BenchStep(name="x", seconds=0, **QUICK).is_finished(tmp_path, "abc")


def test_who_goes_on_passes_by_what_is_finished(tmp_path: Path, monkeypatch, capsys):
    step = BenchStep(name="x", seconds=0, reports=("one",), **QUICK)
    monkeypatch.setattr(everything, "STEPS", (step,))
    monkeypatch.setattr(everything, "RESULTS", tmp_path)
    made: list[bool] = []
    monkeypatch.setattr(everything.image_python, "commit", lambda: "abc")
    monkeypatch.setattr(everything.image_python, "make", lambda: made.append(True))
    report(tmp_path, "one", "abc", 1)
    monkeypatch.setattr(sys, "argv", ["everything", "--go-on"])
    assert everything.main() == 0
    assert "0 of 0 done" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["everything"])
    assert everything.main() == 0
    assert "1 of 1 done" in capsys.readouterr().out
    assert made  # or what is measured would run with another interpreter than what is shipped


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("small", [False, True])
def test_each_step_is_a_command_that_its_program_takes(monkeypatch, step: BenchStep, small: bool):
    module = importlib.import_module(step.module)
    monkeypatch.setattr(sys, "argv", [step.module, *step.command(small=small)[3:]])
    assert module.arguments()


def test_what_there_is_no_time_for_is_reported_and_what_failed(tmp_path: Path, capsys):
    steps = (
        BenchStep(name="well", seconds=0, **QUICK),
        BenchStep(name="long", seconds=1e6, **QUICK),
        BenchStep(name="wrong", seconds=0, module="bench.no_such_program", words="", small=""),
    )
    found = everything.run(steps, minutes=1, small=False, into=tmp_path)
    assert found == {"long": "left out: the time is over", "wrong": "failed with 1"}
    assert "== well: done" in capsys.readouterr().out


def test_a_program_that_takes_too_long_is_ended():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert everything._ended(command, 0.2, {}).startswith("ended, as it took more than")
