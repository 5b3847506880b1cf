"""Where the testbed keeps what it made, and how two runs share it.

Everything lives in one folder outside the repository. An entry is named after its inputs and
appears by rename, so that an entry that exists is whole.

Hazard: an entry is shared by hard links with running clusters; whoever changes a file of an entry
in place changes it in all of them. Entries are replaced, never edited.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.testbed.commands import run


def root() -> Path:
    """The cache folder: $XDG_CACHE_HOME/virtual-cluster, by default below ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "virtual-cluster"


def folder(*parts: str) -> Path:
    """A folder of the cache, made when missing."""
    path = root().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the named lock; the kernel gives it back when the holder dies."""
    path = folder("locks") / f"{name}.lock"
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def making(entry: Path) -> Iterator[Path]:
    """Give an empty scratch folder that becomes `entry` when the block ends well."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    scratch = entry.with_name(f"{entry.name}.making")
    remove(scratch)  # what a killed run left; the caller holds the lock of the entry
    scratch.mkdir()
    yield scratch
    remove(entry)
    scratch.rename(entry)


def remove(path: Path) -> None:
    """Remove a folder, a file, a socket or a link that may be missing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old content or the new, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(data)
    scratch.chmod(mode)  # whatever the umask says
    scratch.rename(path)


def link_tree(source: Path, target: Path) -> None:
    """Copy a tree by hard links where the file system allows it."""
    if source.stat().st_dev == target.parent.stat().st_dev:
        arguments = ["cp", "-a", "--link"]
    else:
        arguments = ["cp", "-a"]
    run([*arguments, str(source), str(target)])
