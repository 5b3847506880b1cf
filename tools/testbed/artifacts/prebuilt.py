"""The rule that a test run builds nothing: a target's needs are built before its first test.

Owns the environment variable of the rule, which child processes inherit. Hazard: a function that
takes longer than a moment must call `refuse` before it builds. Otherwise a test with a time limit
builds on a fresh machine, and fails.
"""

from __future__ import annotations

import os

from tools.testbed.errors import TestbedError

_VARIABLE = "VIRTUAL_CLUSTER_PREBUILT"


def require() -> None:
    """Forbid builds in this process and its children from now on."""
    os.environ[_VARIABLE] = "1"


def is_required() -> bool:
    """Return whether this process must find everything built."""
    return os.environ.get(_VARIABLE) == "1"


def refuse(what: str) -> None:
    """Raise TestbedError if this process must find everything built."""
    if is_required():
        raise TestbedError(
            f"{what}: it is not built, and tests build nothing. Run `make prepare` first. Each"
            " target of the Makefile that runs tests prepares what it needs by itself."
        )
