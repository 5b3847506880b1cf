"""Imports point downward. The tool says so."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.testbed.artifacts import product

ROOT = product.REPOSITORY


def test_the_layers_hold():
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("component", ["vcmanager", "syncer", "vnagent", "kubectl_vc"])
def test_the_cli_alone_draws(component):
    for path in sorted((ROOT / component).rglob("*.py")):
        text = path.read_text()
        for library in ("typer", "rich"):
            used = f"import {library}" in text or f"from {library}" in text
            assert (component, library) == ("kubectl_vc", "rich") or not used, path


def test_the_chart_and_the_package_have_one_version():
    chart = yaml.safe_load((ROOT / "charts/virtual-cluster/Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["version"]}"' in project
    assert chart["appVersion"] == chart["version"]


PACKAGES = [
    *("kubectl_vc", "kubeio", "syncer", "telemetry", "tenancy", "vcmanager", "vnagent"),
]
UNPACKERS = {"tarfile", "zipfile", "zipimport", "lzma", "bz2", "unpack_archive"}


def unpackers(text: str) -> set[str]:
    """Return what a module names of the things that unpack archives, in whatever way."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(module=module, names=names):
                found |= {(module or "").partition(".")[0], *(alias.name for alias in names)}
            case ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found.add(name)
    return found & UNPACKERS


@pytest.mark.parametrize(
    "text",
    [
        *("import tarfile", "import os, zipfile as z", "from tarfile import open", "import bz2"),
        *("from shutil import unpack_archive", "import shutil\nshutil.unpack_archive('x')"),
        "import importlib\nimportlib.import_module('tarfile')",
    ],
)
def test_unpacking_would_be_found(text):
    assert unpackers(text)


@pytest.mark.parametrize("component", PACKAGES)
def test_nothing_of_ours_unpacks_an_archive(component):
    """SEC-18: what a container's `tar` says is unpacked by kubectl alone."""
    paths = sorted((ROOT / component).rglob("*.py"))
    assert paths
    for path in paths:
        assert not unpackers(path.read_text()), path


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("tests/support", ("bench", "tests.chaos", "tests.integration", "tests.node")),
        ("tests/chaos", ("bench",)),
        ("tests/chaos/memory", ("tests.chaos.processes",)),
        ("tests/chaos/processes", ("tests.chaos.memory",)),
    ],
)
def test_test_support_imports_nothing_of_its_users(folder, forbidden):
    """`bench` and both drivers of `tests/chaos` import test support, never the reverse."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    for path in paths:
        names = {f"{name}." for name in imported(path.read_text())}
        used = [name for name in names if name.startswith(tuple(f"{each}." for each in forbidden))]
        assert not used, path


def imported(text: str) -> set[str]:
    """Return the modules that a module's text imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{alias.name}" for alias in names)}
    return found
