"""Execution of other programs, with their error output as the message for the user.

Hazard: a child must end together with its parent, so `run` requests that from the kernel. A child
that outlives a killed parent would continue to write into the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.testbed.errors import TestbedError

TIED = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command that makes the kernel end it together with this process."""


_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"  # not on the PATH of every user


def run(
    argv: Sequence[str],
    *,
    stdin: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> str:
    """Run a program to its end and return its output."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    environment = {**(os.environ if env is None else env)}
    environment["PATH"] = f"{environment.get('PATH', os.defpath)}:{_SYSTEM}"
    if shutil.which(argv[0], path=environment["PATH"]) is None:
        raise TestbedError(f"the program {argv[0]} is not installed")
    result = subprocess.run(
        [*TIED, *argv],
        input=data,
        stdin=subprocess.DEVNULL if data is None else None,
        capture_output=True,
        env=environment,
        cwd=cwd,
        check=False,
    )
    if check and result.returncode != 0:
        detail = (result.stderr or result.stdout).decode(errors="replace").strip()
        lines = detail.splitlines()[-8:]
        shown = " ".join(argv[:6])
        raise TestbedError(f"`{shown}` ended with {result.returncode}: " + "\n  ".join(lines))
    return result.stdout.decode(errors="replace")
