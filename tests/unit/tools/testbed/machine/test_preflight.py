"""Tests of what the testbed needs of the machine."""

from pathlib import Path

import pytest

from tools.testbed.errors import TestbedError
from tools.testbed.machine import preflight


def test_a_disk_without_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight, "SPACE_MINIMUM", 1)
    preflight.check_space(tmp_path)
    monkeypatch.setattr(preflight, "SPACE_MINIMUM", 1 << 60)
    with pytest.raises(TestbedError, match=f"the disk of {tmp_path} has .* MiB left"):
        preflight.check_space(tmp_path)
