"""A machine that vanishes without a word, on a real network that this test makes and takes down."""

import json
import subprocess
import sys

import pytest

from tools.testbed.cluster.handle import REPOSITORY

pytestmark = [pytest.mark.thorough, pytest.mark.node]


def test_a_vanished_machine_is_distinguished_from_a_reader_that_pauses() -> None:
    """REL-86: the kernel alone would send again for a quarter of an hour what is not acknowledged.

    A reader that has paused for longer than that is let be, until its machine is gone as well.
    """
    words = ["unshare", "--net", sys.executable, "-m", "tests.node.agent.vanishing"]
    found = subprocess.run(
        words, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=300
    )
    assert json.loads(found.stdout) == {
        "while it is there": False,
        "read, after": True,
        "paused, after": True,
    }
