"""Private files, written completely or not at all.

Owns the write of a kubeconfig: mode 0600 from its first byte, and never over an existing file.
Hazard: only the link at the end may decide whether the file is written. The check before the work
can be outdated by then.
"""

import os
import tempfile
from pathlib import Path

from kubectl_vc.output.cli_errors import CliError


def check_writable(path: Path, *, force: bool) -> None:
    """Raise CliProblem, before anything is created, if the file cannot be written at the end."""
    if path.is_dir():
        raise CliError(f"{path} is a directory. Give -o the path of a file.")
    if os.path.lexists(path) and not force:
        raise _build_exists_error(path)
    if not path.parent.is_dir():
        raise CliError(
            f"the directory {path.parent} for {path.name} does not exist. Create it first."
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CliError(f"you may not write into {path.parent}. Give -o another path.")


def write_private(path: Path, content: bytes, *, force: bool) -> None:
    """Write a file that only its owner can read. With `force`, replace an existing file."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as problem:
        raise CliError(f"{path} cannot be written: {problem.strerror}.") from problem
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:  # mkstemp created it with mode 0600
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        publish(scratch, path, force=force)
    except OSError as problem:
        raise CliError(f"{path} cannot be written: {problem.strerror}.") from problem
    finally:
        scratch.unlink(missing_ok=True)


def publish(scratch: Path, path: Path, *, force: bool) -> None:
    """Link a finished file to its path. Without `force`, never replace another file."""
    try:
        if force:
            scratch.replace(path)
        else:
            path.hardlink_to(scratch)  # unlike a rename this never replaces a file
    except FileExistsError as problem:
        raise _build_exists_error(path) from problem
    except OSError as problem:
        raise CliError(f"{path} cannot be written: {problem.strerror}.") from problem


def discard(scratch: Path) -> None:
    """Delete a temporary file, if it still exists."""
    scratch.unlink(missing_ok=True)


def _build_exists_error(path: Path) -> CliError:
    return CliError(f"{path} exists already. Give -o another path, or --force to replace it.")
