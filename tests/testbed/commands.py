"""Running other programs: their error output becomes the message a person reads.

Hazard: a child that outlives a killed parent goes on writing into the cache; `run` therefore asks
the kernel to end the child together with its parent.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.testbed import kernel
from tests.testbed.errors import TestbedError


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
    try:
        result = subprocess.run(
            argv,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            env=env,
            cwd=cwd,
            check=False,
            preexec_fn=lambda: kernel.die_with_parent(signal.SIGKILL),
        )
    except FileNotFoundError as error:
        raise TestbedError(f"the program {argv[0]} is not installed") from error
    if check and result.returncode != 0:
        detail = (result.stderr or result.stdout).decode(errors="replace").strip()
        lines = detail.splitlines()[-8:]
        shown = " ".join(argv[:6])
        raise TestbedError(f"`{shown}` ended with {result.returncode}: " + "\n  ".join(lines))
    return result.stdout.decode(errors="replace")
