"""Containers of the Jobs of snapshots as processes on this machine, without a kubelet."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kubeio import Object
from tools.testbed.artifacts import binaries

_SECONDS = 300.0
"""Time in seconds that a container may take."""


def run_container(
    container: Object, log: Path, adapt: Callable[[list[str]], list[str]]
) -> tuple[int, str]:
    """Run a container and return exit code and termination message, as a kubelet reports them.

    `log` is the file of the message. `adapt` returns the words of the command with the paths and
    addresses of this machine.
    """
    words = adapt([*(container.get("command") or ()), *(container.get("args") or ())])
    log.write_text("")
    program = (
        [str(binaries.path(words[0])), *words[1:]]
        if container.get("command")
        else [sys.executable, "-m", "vcmanager", *words]
    )
    env = {each["name"]: each["value"] for each in container.get("env") or ()}
    found = subprocess.run(
        program,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={**os.environ, **env, "TERMINATION_LOG": str(log)},
    )
    output = found.stderr + found.stdout if found.returncode else ""
    return found.returncode, log.read_text() or output
