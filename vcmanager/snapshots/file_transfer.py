"""Steps that copy a snapshot file between its volume and a client's stream (`kubectl exec`).

Owns the partial file of an upload. Must not import anything outside the standard library and its
own folder.

Hazard: a partial file must never have the name of a snapshot. The file gets its name only after its
SHA-256 was found right.
"""

import argparse
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from vcmanager.snapshots import file_store
from vcmanager.snapshots.file_store import CHECKSUM_MISMATCH, FAILED, SNAPSHOT_MISSING, WorkerError

_CHUNK = 256 * 1024


def hold(options: argparse.Namespace) -> dict[str, Any]:
    """Keep the container running, so that a client can run `send` or `receive` in it."""
    time.sleep(options.seconds)
    return {"held": options.seconds}


def send(options: argparse.Namespace) -> dict[str, Any]:
    """Write a snapshot file to the standard output, from an offset in bytes on."""
    path: Path = options.file
    try:
        with path.open("rb") as file:
            file.seek(options.offset)
            while chunk := file.read(_CHUNK):
                sys.stdout.buffer.write(chunk)
    except FileNotFoundError as problem:
        raise WorkerError(SNAPSHOT_MISSING, f"the volume has no file {path.name}") from problem
    sys.stdout.buffer.flush()
    return {}


def receive(options: argparse.Namespace) -> dict[str, Any]:
    """Read a snapshot file of a known size and SHA-256 from the standard input."""
    path: Path = options.file
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            checksum = _copy(sys.stdin.buffer, file, options.size)
            file.flush()
            os.fsync(file.fileno())
        if checksum != options.sha256:
            raise WorkerError(
                CHECKSUM_MISMATCH,
                f"the received file has the SHA-256 {checksum}, and {options.sha256} was announced",
            )
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    file_store.sync_folder(path.parent)
    return {"sha256": checksum, "sizeBytes": options.size}


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> str:
    """Copy exactly `size` bytes. Return their SHA-256."""
    digest, left = hashlib.sha256(), size
    while left:
        chunk = source.read(min(_CHUNK, left))
        if not chunk:
            raise WorkerError(FAILED, f"the stream ended {left} bytes before the end of the file")
        digest.update(chunk)
        target.write(chunk)
        left -= len(chunk)
    return digest.hexdigest()
