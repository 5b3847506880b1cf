"""A user's kubeconfig file, changed as kubectl changes it.

Owns the choice of the file, its lock and the atomic write. Must not know the change. Hazard: the
lock must be the one of kubectl (`FILE.lock`, created exclusively). Otherwise one of two programs
would undo the change of the other.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from kubectl_vc.output import files
from kubectl_vc.output.cli_errors import CliError
from kubeio.api.yaml_writer import to_yaml
from kubeio.config import kubeconfig, loading
from kubeio.errors import CredentialsError

_LOCK_SECONDS = 5.0
_POLL_SECONDS = 0.05
_DEFAULT = "~/.kube/config"


def list_paths(explicit: str) -> list[Path]:
    """Return the files of a user's kubeconfig, in the order in which kubectl merges them."""
    if explicit:
        return [loading.expand_path(explicit)]
    listed = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [loading.expand_path(part) for part in listed or [_DEFAULT]]


def choose_path(explicit: str) -> Path:
    """Return the file to change: the one with the current context, or the first that exists."""
    paths = list_paths(explicit)
    present = [path for path in paths if path.exists()]
    current = (path for path in present if read_document(path).get("current-context"))
    return next(current, next(iter(present), paths[-1]))


def read_document(path: Path) -> dict[str, Any]:
    """Return the content of a kubeconfig. Empty for a file that does not exist or is empty.

    Raises CliError if it cannot be read.
    """
    try:
        with path.open("rb") as stream:  # a device such as /dev/zero has no end
            content = stream.read(kubeconfig.MAX_KUBECONFIG + 1)
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise CliError(f"{path} cannot be read: {problem.strerror}.") from problem
    if not content.strip():
        return {}
    try:
        kubeconfig.parse_kubeconfig(content, str(path))  # refuses aliases and wrong shapes
    except CredentialsError as problem:
        raise CliError(f"{problem}. The file was not changed.") from problem
    document: dict[str, Any] = yaml.safe_load(content)
    return document


def change(path: Path, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replace a kubeconfig by the result of `edit`, atomically and with mode 0600."""
    real = Path(os.path.realpath(path))  # a symbolic link stays one
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise CliError(f"{real.parent} cannot be created: {problem.strerror}.") from problem
    with _lock(path):
        content = to_yaml(edit(read_document(real))).encode()
        files.write_private(real, content, force=True)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    ends = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
            break
        except FileExistsError as problem:
            if time.monotonic() > ends:
                raise CliError(
                    f"{path} is locked by another program. If no kubectl runs, delete {lock}."
                ) from problem
        except OSError as problem:
            raise CliError(f"{lock} cannot be created: {problem.strerror}.") from problem
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
