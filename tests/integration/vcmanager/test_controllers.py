"""The list of controllers is the program's own."""

import re
import subprocess

import pytest

from clusterversions import catalog
from tests.testbed import binaries, versions

MINORS = [each.minor for each in versions.load().kubernetes]


def listed(minor: str) -> tuple[set[str], set[str]]:
    """Return all controllers of the program, and those that `*` does not mean."""
    program = binaries.path("kube-controller-manager", minor)
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    every = re.search(r"All controllers: (.+)", text)
    disabled = re.search(r"Disabled-by-default controllers: (.+?) \(default", text)
    assert every is not None
    assert disabled is not None
    return set(every[1].strip().split(", ")), set(disabled[1].strip().split(", "))


@pytest.mark.parametrize("minor", [m for m in MINORS if m in catalog.minors()])
def test_each_controller_of_the_program_has_a_verdict(minor: str):
    every, disabled = listed(minor)
    rows = {row.name: row for row in catalog.controllers(minor)}
    assert set(rows) == every
    assert {name for name, row in rows.items() if not row.by_default} == disabled


def test_every_known_minor_is_built_here():
    assert set(catalog.minors()) <= set(MINORS)
