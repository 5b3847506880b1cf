"""Bill of materials of a release in CycloneDX 1.6: Python, Go, Debian and npm packages.

Source: https://cyclonedx.org/docs/1.6/json/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools import vendored
from tools.packages import ROOT
from tools.testbed import versions
from tools.testbed.artifacts import haproxy

_GO_MODULES = ROOT / "tools/testbed/gomod"
_RELEASED = ("coredns", "etcd", "etcdutl", "kubernetes-*", "metrics-server")
"""Folders of the Go modules whose programs are in the images of a release."""
_REQUIREMENT = r"^(?:require\s|\s)\s*(\S+) (v\S+)"
"""A line of go.mod, in a block or alone."""


def build(version: str) -> Mapping[str, Any]:
    """Return the document, with one component per library in a fixed order."""
    components = sorted(
        {each["purl"]: each for each in _iterate_components()}.values(),
        key=lambda each: each["purl"],
    )
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "virtual-cluster", "version": version}
        },
        "components": components,
    }


def _iterate_components() -> Iterator[dict[str, str]]:
    lock = (ROOT / "requirements.lock").read_text()
    for name, pin in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE):
        yield _describe("pypi", name.lower(), pin)
    for pattern in _RELEASED:
        for path in sorted(_GO_MODULES.glob(f"{pattern}/go.mod")):
            for name, pin in re.findall(_REQUIREMENT, path.read_text(), re.MULTILINE):
                yield _describe("golang", name, pin)
    base = versions.load().base
    for name in (*base.packages, *haproxy.PACKAGES):
        yield _describe("deb/debian", name, base.suite)
    for package in vendored.load_packages():
        yield _describe("npm", package.name, package.version)


def _describe(kind: str, name: str, version: str) -> dict[str, str]:
    purl = f"pkg:{kind}/{name}@{version}"
    return {"type": "library", "name": name, "version": version, "purl": purl}
