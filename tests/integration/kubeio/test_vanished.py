"""A server that vanishes without a word, on a real network that this test makes and takes down."""

import json
import subprocess
import sys

import pytest

from tools.testbed.cluster.handle import REPOSITORY

pytestmark = pytest.mark.thorough


def test_the_kernel_notices_that_a_watchs_server_has_vanished() -> None:
    """REL-46: before the bookmarks that do not come. One that is there and silent is let be."""
    words = ["unshare", "--net", sys.executable, "-m", "tests.integration.kubeio.vanishing"]
    found = subprocess.run(
        words, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=120
    )
    told = json.loads(found.stdout)
    assert told["stands while it is there"]
    assert "the connection broke" in told["after"]
