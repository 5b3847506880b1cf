"""Running other programs: their error output becomes the message a person reads.

Hazard: a child that outlives a killed parent goes on writing into the cache; `run` therefore asks
the kernel to end the child together with its parent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.testbed.errors import TestbedError

TIED = ("setpriv", "--pdeathsig", "KILL", "--")
"""Put before a command to have the kernel end it together with us."""


_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"  # not on everybody's PATH


def run(
    argv: Sequence[str],
    *,
    stdin: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> str:
    """Run a program to its end and return what it printed."""
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
