"""A rewritten snapshot has the live keys of the new tenant only, and no file is left half."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.support.vcmanager.snapshots import write_database
from vcmanager.snapshots import etcd_fork, fork_rules
from vcmanager.snapshots.etcd_database import DatabaseError, EtcdDatabase, compute_checksum
from vcmanager.snapshots.fork_rules import ForkRefusedError

RANGE = ip_network("10.96.16.0/22")
CHANGES = [
    (2, "/registry/configmaps/web/a", False),
    (3, "/registry/configmaps/web/b", False),
    (4, "/registry/pods/web/p", False),
    (5, "/registry/configmaps/web/a", False),
    (6, "/registry/configmaps/web/b", True),
    (7, "/registry/leases/kube-system/l", False),
]


def test_only_live_keys_of_the_new_tenant_are_kept(tmp_path: Path):
    write_database(tmp_path / "old.db", CHANGES)
    counts = etcd_fork.fork_database(tmp_path / "old.db", tmp_path / "new.db", RANGE)
    assert counts == {"kept": 1, "leftOut": 2}
    compute_checksum(tmp_path / "new.db")
    with EtcdDatabase(tmp_path / "new.db") as database:
        assert database.read_live_keys() == (5, {"/registry/configmaps/web/a": 5})


def test_a_refusal_leaves_no_file(tmp_path: Path, monkeypatch):
    write_database(tmp_path / "old.db", CHANGES)

    def refuse(*_: object) -> bytes:
        raise ForkRefusedError("EncryptedData", "no")

    monkeypatch.setattr(fork_rules, "convert_value", refuse)
    with pytest.raises(ForkRefusedError):
        etcd_fork.fork_database(tmp_path / "old.db", tmp_path / "new.db", RANGE)
    assert [each.name for each in tmp_path.iterdir()] == ["old.db"]


def test_a_broken_database_is_refused(tmp_path: Path):
    (tmp_path / "old.db").write_bytes(b"x" * 8192)
    with pytest.raises(DatabaseError):
        etcd_fork.fork_database(tmp_path / "old.db", tmp_path / "new.db", RANGE)
