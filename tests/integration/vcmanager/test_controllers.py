"""Controllers and flags for the programs of a minor are known to these programs."""

import re
import subprocess

import pytest

from clusterversions import catalog
from tools.testbed.artifacts import binaries


def listed(minor: str) -> tuple[set[str], set[str]]:
    """Return all controllers of the program, and those that `*` does not mean."""
    program = binaries.path("kube-controller-manager", minor)
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    every = re.search(r"All controllers: (.+)", text)
    disabled = re.search(r"Disabled-by-default controllers: (.+?) \(default", text)
    assert every is not None
    assert disabled is not None
    return set(every[1].strip().split(", ")), set(disabled[1].strip().split(", "))


@pytest.mark.parametrize("minor", catalog.list_minors())
def test_each_controller_of_the_program_has_a_verdict(minor: str):
    every, disabled = listed(minor)
    rows = {row.name: row for row in catalog.list_controllers(minor)}
    assert set(rows) == every
    assert {name for name, row in rows.items() if not row.by_default} == disabled


@pytest.mark.parametrize("minor", catalog.list_minors())
@pytest.mark.parametrize("part", ["apiserver", "controller-manager"])
def test_the_program_has_each_flag_of_its_template(minor: str, part: str):
    program = binaries.path(f"kube-{part}", minor)
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^ +--([a-z0-9-]+)", text, re.MULTILINE))
    passed = set(re.findall(r"--([a-z0-9-]+)=", catalog.read_template(part)))
    assert len(passed) > 10
    assert passed - known == set()
