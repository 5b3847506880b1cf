"""What is run in one quiet half hour, and what is said of what was not."""

import importlib
import sys
from pathlib import Path

import pytest

from bench import everything
from bench.everything import STEPS, Step

QUICK = {"module": "platform", "words": "", "small": ""}


def test_it_fits_into_the_time_that_is_promised():
    assert sum(step.seconds for step in STEPS) <= 25 * 60
    assert len({step.name for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("small", [False, True])
def test_each_step_is_a_command_that_its_program_takes(monkeypatch, step: Step, small: bool):
    module = importlib.import_module(step.module)
    monkeypatch.setattr(sys, "argv", [step.module, *step.command(small=small)[3:]])
    assert module.arguments()


def test_what_there_is_no_time_for_is_told_and_what_failed(tmp_path: Path, capsys):
    steps = (
        Step(name="well", seconds=0, **QUICK),
        Step(name="long", seconds=1e6, **QUICK),
        Step(name="wrong", seconds=0, module="bench.no_such_program", words="", small=""),
    )
    found = everything.run(steps, minutes=1, small=False, into=tmp_path)
    assert found == {"long": "left out: the time is over", "wrong": "failed with 1"}
    assert "== well: done" in capsys.readouterr().out


def test_a_program_that_takes_too_long_is_ended():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert everything._ended(command, 0.2, {}).startswith("ended, as it took more than")
