"""A written database is read by the reader, and has the order and checksum of etcd."""

from pathlib import Path

import pytest

from vcmanager.snapshots.etcd_database import EtcdDatabase, compute_checksum
from vcmanager.snapshots.etcd_writer import DatabaseWriter


@pytest.mark.parametrize("count", [0, 1, 2, 100, 5000])
@pytest.mark.parametrize("size", [0, 10, 3000, 20_000])
def test_all_entries_come_back_in_order(tmp_path: Path, count: int, size: int):
    count = min(count, 500) if size > 10 else count
    entries = [(number.to_bytes(8, "big"), bytes([number % 256]) * size) for number in range(count)]
    path = tmp_path / "a.db"
    with DatabaseWriter(path) as writer:
        writer.add_bucket(b"key", entries)
        writer.add_bucket(b"meta", [(b"a", b"b")])
        writer.finish()
    compute_checksum(path)
    with EtcdDatabase(path) as database:
        assert database.list_buckets() == [b"key", b"meta"]
        assert list(database.iterate_bucket(b"key")) == entries
        assert list(database.iterate_bucket(b"meta")) == [(b"a", b"b")]


def test_entries_out_of_order_are_refused(tmp_path: Path):
    with (
        DatabaseWriter(tmp_path / "a.db") as writer,
        pytest.raises(ValueError, match="not sorted"),
    ):
        writer.add_bucket(b"key", [(b"b", b""), (b"a", b"")])
