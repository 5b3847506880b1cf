"""Checks of a snapshot file, and writes that leave no half file."""

from pathlib import Path

import pytest

from tests.support.vcmanager.snapshots import write_database
from vcmanager.snapshots import file_store
from vcmanager.snapshots.file_store import WorkerError


def test_the_checksum_is_that_of_the_whole_file(tmp_path: Path):
    write_database(tmp_path / "a.db", [(2, "/registry/pods/default/a", False)])
    checksum, size = file_store.check_file(tmp_path / "a.db", "")
    assert size == (tmp_path / "a.db").stat().st_size
    assert file_store.check_file(tmp_path / "a.db", checksum) == (checksum, size)


@pytest.mark.parametrize(
    ("name", "expected", "reason"),
    [
        ("none.db", "", "SnapshotFileMissing"),
        ("short.db", "", "ChecksumMismatch"),
        ("a.db", "00", "ChecksumMismatch"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, name: str, expected: str, reason: str):
    write_database(tmp_path / "a.db", [(2, "/registry/pods/default/a", False)])
    (tmp_path / "short.db").write_bytes((tmp_path / "a.db").read_bytes()[:-1])
    with pytest.raises(WorkerError) as refused:
        file_store.check_file(tmp_path / name, expected)
    assert refused.value.reason == reason


def test_a_text_is_written_as_a_whole(tmp_path: Path):
    file_store.write_durably(tmp_path / "a.json", "old")
    file_store.write_durably(tmp_path / "a.json", "new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "new")]
