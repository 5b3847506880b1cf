"""OpenID Connect provider of the tests: oidc-provider of npm, by the versions of a lock file.

Needs node and npm, which no other part needs. A machine without them builds nothing here, and the
test of the provider is skipped. Continuous integration (`CI=true`) must have them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from tools.testbed import cache
from tools.testbed.artifacts import prebuilt
from tools.testbed.commands import run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

PROGRAM = "server.mjs"
_SOURCE = Path(__file__).parents[1] / "oidc_server"
_FILES = ("package.json", "package-lock.json", PROGRAM)
_MARK = "installed"


def is_available() -> bool:
    """Return whether node and npm are installed."""
    return all(map(shutil.which, ("node", "npm")))


def is_required() -> bool:
    """Return whether a missing node or npm is a failure."""
    return os.environ.get("CI") == "true"


def prepare(progress: StepPrinter) -> None:
    """Install the packages, or print what a machine without npm leaves out. Raises TestbedError."""
    if is_available():
        build(progress)
    elif is_required():
        raise TestbedError("node and npm are missing, and CI=true needs them. Install both.")
    else:
        progress.note("node or npm is missing: the test of the OIDC provider is skipped")


def build(progress: StepPrinter) -> Path:
    """Return the folder with the program and its packages, made if missing."""
    folder = location()
    if not (folder / _MARK).is_file():
        prebuilt.refuse("the OIDC provider")
        folder.mkdir(parents=True, exist_ok=True)
        for each in _FILES:
            shutil.copy(_SOURCE / each, folder / each)
        with progress.step("npm: the OIDC provider of the tests"):
            options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
            run(["npm", "ci", *options], cwd=folder)
        (folder / _MARK).touch()
    return folder


def location() -> Path:
    """Return the folder of these files in the cache."""
    digest = hashlib.sha256(b"".join((_SOURCE / each).read_bytes() for each in _FILES)).hexdigest()
    return cache.root() / "node" / f"oidc-server-{digest[:12]}"
