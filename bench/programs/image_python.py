"""Interpreter of the product's images, for the measured programs.

It belongs to the images' Debian root and has their libraries, if that root has been made (`python
-m tools.testbed build`, or `make` here). It is a newer Python with a newer OpenSSL, built for
speed. It takes 10 % less time for the same work than that of a development environment.
"""

import contextlib
import os
import platform
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from functools import cache

from bench.programs.super_cluster import ROOT
from tools.testbed.artifacts import debian, product
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

_NOT_RESULTS = ":(exclude)bench/results"


def make() -> None:
    """Make the images' root if it is missing. Raises TestbedError."""
    progress = StepPrinter()
    product.site(debian.root(progress), progress)


@cache
def python() -> tuple[str, ...]:
    """Return the words that start it with our code, or this environment's if it is missing."""
    base = debian.known_root()
    site, words = sysconfig.get_paths()["purelib"], [sys.executable]
    if base is not None:
        with contextlib.suppress(TestbedError, OSError):
            site, words = str(product.site(base, StepPrinter())), debian.python(base)
    return ("env", f"PYTHONPATH={os.pathsep.join([str(ROOT), site])}", *words)


def here() -> str:
    """Return a report's entry about programs that run with this environment's interpreter."""
    return f"this environment's Python {platform.python_version()}"


def machine() -> dict[str, int | str]:
    """Return a report's entry about machine, interpreter, measured code and time."""
    return {
        "cores": os.cpu_count() or 0,
        "python": here() if python()[-1] == sys.executable else f"the images' Python {_version()}",
        "commit": commit(),
        "began": datetime.now(UTC).isoformat(timespec="minutes"),
    }


def commit() -> str:
    """Return the checked-out commit, with a `+` for further changes. Empty without git.

    Reports written during the run are no changes, because they do not affect the result.
    """
    try:
        name = _git("describe", "--always", "--exclude=*")
        more = _git("status", "--porcelain", "--untracked-files=no", "--", ".", _NOT_RESULTS)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{name}+" if more else name


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _version() -> str:
    words = [*python(), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
