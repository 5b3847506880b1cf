"""Each extra alone brings what its component imports. The development environment hides it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.testbed.artifacts.product import REPOSITORY

PACKAGES = {
    "agent": "vnagent",
    "cli": "kubectl_vc",
    "manager": "vcmanager",
    "syncer": "syncer",
}
BLOCKED = """
import importlib, pkgutil, sys

package, *blocked = sys.argv[1:]
sys.modules.update(dict.fromkeys(blocked))  # each import of one is halted
found = importlib.import_module(package)
for module in pkgutil.walk_packages(found.__path__, f"{package}."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def closure(extra: str) -> set[str]:
    """Return the distributions that an extra brings, with what they bring."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    pending = [Requirement(text) for text in project["optional-dependencies"][extra]]
    found: set[str] = set()
    while pending:
        wanted = pending.pop()
        name = canonicalize_name(wanted.name)
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or ():
            inner = Requirement(text)
            extras = wanted.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
                pending.append(inner)
    return found


@pytest.mark.parametrize("extra", PACKAGES)
def test_an_extra_brings_all_that_its_component_imports(extra: str):
    brought = closure(extra)
    blocked = [
        module
        for module, names in importlib.metadata.packages_distributions().items()
        if not brought & {canonicalize_name(name) for name in names}
        and module.isidentifier()
        and not (REPOSITORY / module).is_dir()
    ]
    assert "pytest" in blocked
    argv = [sys.executable, "-c", BLOCKED, PACKAGES[extra], *blocked]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr
