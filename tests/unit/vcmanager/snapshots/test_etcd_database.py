"""Checksum, revision and live keys of a snapshot file. A broken file raises DatabaseError."""

import random
from pathlib import Path

import pytest

from tests.support.vcmanager.snapshots import write_database
from vcmanager.snapshots import etcd_database
from vcmanager.snapshots.etcd_database import DatabaseError, EtcdDatabase

CHANGES = [
    (2, "/registry/pods/default/a", False),
    (3, "/registry/services/specs/default/web", False),
    (4, "/registry/pods/default/a", True),
    (5, "/registry/apps.example.org/shops/default/one", False),
    (6, "/registry/services/specs/default/web", False),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "s.db"
    write_database(found, CHANGES)
    return found


def test_live_keys_have_the_revision_of_their_last_change(path):
    _, size = etcd_database.compute_checksum(path)
    assert size == path.stat().st_size
    with EtcdDatabase(path) as database:
        revision, live = database.read_live_keys()
    assert revision == 6
    assert live == {
        "/registry/services/specs/default/web": 6,
        "/registry/apps.example.org/shops/default/one": 5,
    }
    assert etcd_database.count_by_resource(live) == {
        "services/specs": 1,
        "shops.apps.example.org": 1,
    }


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        ("/registry/pods/default/a", "pods"),
        ("/registry/namespaces/default", "namespaces"),
        ("/registry/apps.example.org/shops/one", "shops.apps.example.org"),
        ("/registry/ranges/serviceips", "ranges"),
        ("compact_rev_key", ""),
        ("/other/pods/default/a", ""),
    ],
)
def test_the_resource_of_a_key(key, resource):
    assert etcd_database.get_resource(key) == resource


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[:-1], "not complete"),
        (lambda content: content[:-32], "not complete"),
        (lambda content: b"x" + content[1:], "does not have the checksum"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "does not have the checksum"),
    ],
)
def test_a_changed_file_has_another_checksum(path, change, words):
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DatabaseError, match=words):
        etcd_database.compute_checksum(path)


def test_any_cut_or_changed_file_is_refused_or_read_and_nothing_else(path):
    """The reader has no other exception and no endless loop, whatever the bytes are."""
    content, chance = path.read_bytes(), random.Random(7)  # noqa: S311
    for _ in range(300):
        broken = bytearray(content[: chance.randrange(1, len(content))])
        for _ in range(chance.randrange(8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        path.write_bytes(broken)
        try:
            with EtcdDatabase(path) as database:
                database.read_live_keys()
        except DatabaseError:
            continue


def test_an_empty_file_is_no_database(path):
    path.write_bytes(b"")
    with pytest.raises(DatabaseError, match="empty"):
        EtcdDatabase(path)
