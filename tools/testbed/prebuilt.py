"""The rule that a run of tests builds nothing: what a target needs is built before its first test.

Owns the environment variable that says so; child processes inherit it. Hazard: whatever takes
longer than a moment to make must call `refuse` before it makes it. Otherwise a test with a time
limit builds it on a fresh machine, and fails.
"""

from __future__ import annotations

import os

from tools.testbed.errors import TestbedError

_VARIABLE = "VIRTUAL_CLUSTER_PREBUILT"


def require() -> None:
    """Have this process and its children build nothing from now on."""
    os.environ[_VARIABLE] = "1"


def is_required() -> bool:
    """Whether this process must find everything built."""
    return os.environ.get(_VARIABLE) == "1"


def refuse(what: str) -> None:
    """Raise TestbedError when this process must find everything built."""
    if is_required():
        raise TestbedError(
            f"{what}: it is not built, and tests build nothing. Run `make prepare` first; each "
            "target of the Makefile that runs tests prepares what it needs by itself."
        )
