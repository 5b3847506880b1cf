"""The wall clock of another process is what the drill says. Its monotonic one is everyone's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.processes.clock import ClockOffset, MissingCompilerError

TELL = """
import datetime, sys, time
for _ in sys.stdin:
    print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), flush=True)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_one_process_has_a_clock_of_its_own(tmp_path: Path):
    clock = ClockOffset(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        env={**os.environ, **clock.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        before = time.time(), time.monotonic()
        told = []
        for ahead in (0.0, 86_400.5, -600.25, 0.0):
            clock.set(ahead)
            asked.stdin.write("\n")
            asked.stdin.flush()
            told.append((ahead, *map(float, asked.stdout.readline().split())))
        asked.stdin.close()
    after = time.time(), time.monotonic()
    for ahead, wall, date, monotonic in told:
        assert before[0] <= wall - ahead <= after[0]
        assert before[0] - 0.001 <= date - ahead <= after[0]
        assert before[1] <= monotonic <= after[1]


def test_without_a_compiler_it_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingCompilerError, match="no C compiler"):
        ClockOffset(tmp_path)
