"""Tests of what the testbed needs of the machine."""

import subprocess
from pathlib import Path

import pytest

from tools.testbed.errors import TestbedError
from tools.testbed.machine import preflight
from tools.testbed.progress import StepPrinter

ROOT = Path(__file__).parents[5]


def test_a_disk_without_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight, "SPACE_MINIMUM", 1)
    preflight.check_space(tmp_path)
    monkeypatch.setattr(preflight, "SPACE_MINIMUM", 1 << 60)
    with pytest.raises(TestbedError, match=f"the disk of {tmp_path} has .* MiB left"):
        preflight.check_space(tmp_path)


def test_make_setup_and_the_testbed_give_the_same_instruction_about_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("YES", raising=False)
    monkeypatch.setattr(preflight, "PACKAGES", {"no-such-program": "python3-venv"})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(TestbedError) as problem:
        preflight.check_tools(StepPrinter())
    python = tmp_path / "python-without-venv"
    python.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        [ROOT / "tools/testbed/python-venv", python],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (1, str(problem.value))
