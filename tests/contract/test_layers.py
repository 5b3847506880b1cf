"""Imports point downward; the tool says so."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.testbed import product

ROOT = product.REPOSITORY


def test_the_layers_hold():
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("component", ["vcmanager", "syncer", "vnagent", "kubectl_vc"])
def test_the_cli_alone_draws_and_parses_flags_with_a_framework(component):
    for path in sorted((ROOT / component).rglob("*.py")):
        text = path.read_text()
        for library in ("typer", "rich"):
            used = f"import {library}" in text or f"from {library}" in text
            assert component == "kubectl_vc" or not used, path


def test_the_chart_and_the_package_have_one_version():
    chart = yaml.safe_load((ROOT / "charts/virtual-cluster/Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["version"]}"' in project
    assert chart["appVersion"] == chart["version"]


@pytest.mark.parametrize("component", ["kubectl_vc", "kubeio", "syncer", "vcmanager", "vnagent"])
def test_nothing_of_ours_unpacks_an_archive(component):
    """SEC-18: what a container's `tar` says is unpacked by kubectl alone."""
    for path in sorted((ROOT / component).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = {alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name")}
            modules = {name.partition(".")[0] for name in names} | {getattr(node, "module", "")}
            assert not modules & {"tarfile", "zipfile", "zipimport", "lzma", "bz2"}, path
            assert getattr(node, "attr", "") != "unpack_archive", path
