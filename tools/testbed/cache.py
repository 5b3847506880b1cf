"""Cache folder of the testbed, which parallel runs share.

Every result is in one folder outside the repository. An entry is named after its inputs and appears
by rename, so that an existing entry is complete.

Hazard: an entry must be replaced and never edited. Running clusters share its files by hard links,
so an edit changes all of them.
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
    """Return the cache folder: $XDG_CACHE_HOME/virtual-cluster, by default in ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "virtual-cluster"


def folder(*parts: str) -> Path:
    """Return a folder of the cache, made if missing."""
    path = root().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the named lock. The kernel releases it when the holder dies."""
    path = folder("locks") / f"{name}.lock"
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def making(entry: Path) -> Iterator[Path]:
    """Yield an empty scratch folder that becomes `entry` when the block ends without an error."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    scratch = entry.with_name(f"{entry.name}.making")
    remove(scratch)  # left by a killed run, as the caller holds the entry's lock
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
    scratch.chmod(mode)  # independent of the umask
    scratch.rename(path)


def link_tree(source: Path, target: Path) -> None:
    """Copy a tree by hard links where the file system allows it."""
    if source.stat().st_dev == target.parent.stat().st_dev:
        arguments = ["cp", "-a", "--link"]
    else:
        arguments = ["cp", "-a"]
    run([*arguments, str(source), str(target)])
