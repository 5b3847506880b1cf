"""Writer of an etcd snapshot file: buckets with sorted entries, and etcd's checksum at the end.

The file is a bbolt database (https://github.com/etcd-io/bbolt, page.go and bucket.go) that is
written once from the first page to the last. `etcdutl snapshot restore` reads it. Must not import
anything outside the standard library and its own folder.

Hazard: the entries of a bucket must be in the order of their keys. etcd searches in pages, and
would not find an entry at another place.
"""

import hashlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Self

from vcmanager.snapshots.etcd_database import compute_fnv

_PAGE = 4096
_HEADER = struct.Struct("<QHHI")
_BRANCH = struct.Struct("<IIQ")
_LEAF = struct.Struct("<IIII")
_META = struct.Struct("<IIIIQQQQQ")
_BUCKET = struct.Struct("<QQ")
_ELEMENT_SIZE = 16
_BRANCH_FLAG, _LEAF_FLAG, _META_FLAG, _FREELIST_FLAG = 0x01, 0x02, 0x04, 0x10
_MAGIC, _VERSION = 0xED0CDAED, 2
_FREELIST_PAGE, _FIRST_PAGE = 2, 3
_ROOM = _PAGE - _HEADER.size
_CHUNK = 1024 * 1024
Entry = tuple[bytes, bytes, int]
"""Key, value, and flags: 1 for a bucket."""


class DatabaseWriter:
    """A database that is being written: `add_bucket` for each bucket, then `finish`.

    Use as `with`.
    """

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self._path = path
        self._file: BinaryIO = path.open("w+b")
        self._file.write(bytes(_FIRST_PAGE * _PAGE))
        self._next_page = _FIRST_PAGE
        self._roots: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        """Return the open writer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def add_bucket(self, name: bytes, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Write a bucket. Raises ValueError for entries that are not sorted."""
        self._roots[name] = self._write_tree((key, value, 0) for key, value in entries)

    def finish(self) -> None:
        """Write the root, the two meta pages and the checksum."""
        buckets = [(name, _BUCKET.pack(root, 0), 1) for name, root in sorted(self._roots.items())]
        root = self._write_tree(buckets)
        freelist = _HEADER.pack(_FREELIST_PAGE, _FREELIST_FLAG, 0, 0)
        first = b"".join(
            (self._build_meta(0, root), self._build_meta(1, root), freelist.ljust(_PAGE, b"\0"))
        )
        self._file.seek(0)
        self._file.write(first)
        self._file.seek(0)
        digest = hashlib.sha256()
        while chunk := self._file.read(_CHUNK):
            digest.update(chunk)
        self._file.write(digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _build_meta(self, number: int, root: int) -> bytes:
        body = _META.pack(
            *(_MAGIC, _VERSION, _PAGE, 0, root, 0),
            *(_FREELIST_PAGE, self._next_page, number),
        )
        header = _HEADER.pack(number, _META_FLAG, 0, 0)
        return (header + body + struct.pack("<Q", compute_fnv(body))).ljust(_PAGE, b"\0")

    def _write_tree(self, entries: Iterable[Entry]) -> int:
        """Write the leaves and then each level of branches. Return the page of the root."""
        level: list[tuple[bytes, int]] = []
        pending: list[Entry] = []
        size, last = 0, b""
        for entry in entries:
            needed = _ELEMENT_SIZE + len(entry[0]) + len(entry[1])
            if (pending or level) and entry[0] <= last:
                raise ValueError("the entries of a bucket are not sorted")
            last = entry[0]
            if pending and size + needed > _ROOM:
                level.append((pending[0][0], self._write_leaf(pending)))
                pending, size = [], 0
            pending.append(entry)
            size += needed
        if pending or not level:
            level.append((pending[0][0] if pending else b"", self._write_leaf(pending)))
        while len(level) > 1:
            level = self._write_branches(level)
        return level[0][1]

    def _write_branches(self, children: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
        found: list[tuple[bytes, int]] = []
        pending: list[tuple[bytes, int]] = []
        size = 0
        for child in children:
            needed = _ELEMENT_SIZE + len(child[0])
            if pending and size + needed > _ROOM:
                found.append((pending[0][0], self._write_branch(pending)))
                pending, size = [], 0
            pending.append(child)
            size += needed
        found.append((pending[0][0], self._write_branch(pending)))
        return found

    def _write_leaf(self, entries: list[Entry]) -> int:
        heads, bodies = bytearray(), bytearray()
        for index, (key, value, flags) in enumerate(entries):
            position = _ELEMENT_SIZE * (len(entries) - index) + len(bodies)
            heads += _LEAF.pack(flags, position, len(key), len(value))
            bodies += key + value
        return self._write_page(_LEAF_FLAG, len(entries), bytes(heads + bodies))

    def _write_branch(self, children: list[tuple[bytes, int]]) -> int:
        heads, bodies = bytearray(), bytearray()
        for index, (key, page) in enumerate(children):
            position = _ELEMENT_SIZE * (len(children) - index) + len(bodies)
            heads += _BRANCH.pack(position, len(key), page)
            bodies += key
        return self._write_page(_BRANCH_FLAG, len(children), bytes(heads + bodies))

    def _write_page(self, flag: int, count: int, content: bytes) -> int:
        """Write a page with as many further pages as its content needs. Return its number."""
        number = self._next_page
        pages = -(-(_HEADER.size + len(content)) // _PAGE)
        header = _HEADER.pack(number, flag, count, pages - 1)
        self._file.write((header + content).ljust(pages * _PAGE, b"\0"))
        self._next_page += pages
        return number
