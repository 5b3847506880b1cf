"""The interpreter that the product's images run, for the programs that are measured.

Images are made of Debian's packages, whose Python is built for speed; the one of a development
environment often is not and takes a third more for the same work.
"""

import os
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from bench.rig import ROOT

_NOT_RESULTS = ":(exclude)bench/results"
DEBIAN = Path("/usr/bin/python3")
"""The entry point of the images (`tests/testbed/product.py`)."""


@cache
def python() -> tuple[str, ...]:
    """Return the words that start it with our libraries, or our own where it does not fit them."""
    path = os.pathsep.join([str(ROOT), sysconfig.get_paths()["purelib"]])
    fits = DEBIAN.exists() and _version(str(DEBIAN))[:2] == sys.version_info[:2]
    return "env", f"PYTHONPATH={path}", str(DEBIAN) if fits else sys.executable


def machine() -> dict[str, int | str]:
    """Return what a report says of machine and interpreter, and of what is measured, and when."""
    found = python()[-1]
    whose = "Debian's" if found == str(DEBIAN) else "this environment's"
    version = ".".join(map(str, _version(found)))
    return {
        "cores": os.cpu_count() or 0,
        "python": f"{whose} Python {version}",
        "commit": commit(),
        "began": datetime.now(UTC).isoformat(timespec="minutes"),
    }


def commit() -> str:
    """Return the commit that is checked out, with a `+` if there is more; empty without git.

    Reports that were written meanwhile are no more: they say nothing of what was measured.
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


@cache
def _version(interpreter: str) -> tuple[int, ...]:
    words = [interpreter, "-c", "import sys; print(*sys.version_info[:3])"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))
