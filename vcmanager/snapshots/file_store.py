"""Files of snapshots on a volume: reasons of failures, checks and durable writes.

Must not import anything outside the standard library and its own folder.
"""

import os
from pathlib import Path

from vcmanager.snapshots import etcd_database
from vcmanager.snapshots.etcd_database import DatabaseError

CHECKSUM_MISMATCH = "ChecksumMismatch"
SNAPSHOT_MISSING = "SnapshotFileMissing"
VOLUME_FULL = "VolumeFull"
FAILED = "SnapshotJobFailed"


class WorkerError(Exception):
    """The step failed. `reason` is CamelCase."""

    def __init__(self, reason: str, message: str) -> None:
        """Store the parts."""
        super().__init__(message)
        self.reason = reason


def check_file(path: Path, expected: str) -> tuple[str, int]:
    """Return SHA-256 and size in bytes of a file. `expected` is its SHA-256, or empty.

    Raises WorkerError if it is missing, incomplete or another file.
    """
    try:
        checksum, size = etcd_database.compute_checksum(path)
    except FileNotFoundError as problem:
        message = f"the volume has no file {path.name}"
        raise WorkerError(SNAPSHOT_MISSING, message) from problem
    except DatabaseError as problem:
        raise WorkerError(CHECKSUM_MISMATCH, str(problem)) from problem
    if expected and checksum != expected:
        raise WorkerError(
            CHECKSUM_MISMATCH,
            f"{path.name} has the SHA-256 {checksum}, and the snapshot was recorded with"
            f" {expected}",
        )
    return checksum, size


def write_durably(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    part = path.with_name(f"{path.name}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk. A rename may be lost otherwise."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
