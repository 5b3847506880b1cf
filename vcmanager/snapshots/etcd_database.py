"""Reader of an etcd snapshot file: its checksum, revision and live keys.

The file is a bbolt database (https://github.com/etcd-io/bbolt, page.go and bucket.go), followed by
the SHA-256 of all bytes before it (etcd's `maintenance.go`). The bucket `key` has one entry for
each revision, and a tombstone for each delete. Must not import anything outside the standard
library, because it runs in the pod of a Job.

Hazard: the file may be cut off or changed. Each offset is checked, and a database that cannot be
read raises DatabaseError. The checksum is checked first, because no other check finds each change.
"""

import hashlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_MAGIC = 0xED0CDAED
_VERSION = 2
_PAGE_HEADER = struct.Struct("<QHHI")
_META = struct.Struct("<IIIIQQQQQ")
_BRANCH = struct.Struct("<IIQ")
_LEAF = struct.Struct("<IIII")
_BUCKET = struct.Struct("<QQ")
_ELEMENT_SIZE = 16
_BRANCH_FLAG, _LEAF_FLAG, _BUCKET_FLAG = 0x01, 0x02, 0x01
_DIGEST_SIZE = 32
_SECTOR = 512
"""Size in bytes of which a database is a multiple. A remainder of 32 is etcd's checksum."""
_CHUNK = 1024 * 1024
_REVISION_SIZE = 17


class DatabaseError(Exception):
    """The file is no intact etcd snapshot."""


def compute_checksum(path: Path) -> tuple[str, int]:
    """Return the SHA-256 of a snapshot file and its size in bytes.

    Raises DatabaseError if etcd's own checksum at the end is missing or another one.
    """
    size = path.stat().st_size
    if size % _SECTOR != _DIGEST_SIZE:
        raise DatabaseError(f"{path.name} has no checksum at its end, so it is not complete")
    content, whole, left = hashlib.sha256(), hashlib.sha256(), size - _DIGEST_SIZE
    with path.open("rb") as file:
        while left:
            chunk = file.read(min(_CHUNK, left))
            if not chunk:
                raise DatabaseError(f"{path.name} became shorter while it was read")
            content.update(chunk)
            left -= len(chunk)
        whole = content.copy()
        end = file.read(_DIGEST_SIZE)
    whole.update(end)
    if content.digest() != end:
        raise DatabaseError(f"{path.name} does not have the checksum that etcd wrote at its end")
    return whole.hexdigest(), size


class EtcdDatabase:
    """An open snapshot file. Use as `with`."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises DatabaseError if it is no bbolt database."""
        self._file = path.open("rb")
        try:
            self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as problem:
            self._file.close()
            raise DatabaseError(f"{path.name} is empty") from problem
        self._page_size, self._root = 0, 0
        self._visited: set[int] = set()
        try:
            self._read_meta(path.name)
        except DatabaseError:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        """Return the open database."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._data.close()
        self._file.close()

    def read_live_keys(self) -> tuple[int, dict[str, int]]:
        """Return the highest revision, and the revision of the last change of each live key."""
        self._visited.clear()
        highest = 0
        live: dict[str, int] = {}
        for key, value in self._iterate_bucket(b"key"):
            if len(key) < _REVISION_SIZE:
                raise DatabaseError("the bucket of keys has an entry without a revision")
            highest = max(highest, int.from_bytes(key[:8], "big"))
            name = _read_first_field(value).decode(errors="replace")
            if key[_REVISION_SIZE:] == b"t":
                live.pop(name, None)
            else:
                live[name] = int.from_bytes(key[:8], "big")
        return highest, live

    def list_buckets(self) -> list[bytes]:
        """Return the names of all buckets."""
        self._visited.clear()
        return [key for key, _, flags in self._iterate_tree(self._root) if flags & _BUCKET_FLAG]

    def iterate_bucket(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a bucket in the order of their keys. Not two iterations at once."""
        self._visited.clear()
        yield from self._iterate_bucket(name)

    def read_live_entries(self) -> dict[str, bytes]:
        """Return the key of the last entry of each live key, in the bucket `key`."""
        live: dict[str, bytes] = {}
        for key, value in self.iterate_bucket(b"key"):
            if len(key) < _REVISION_SIZE:
                raise DatabaseError("the bucket of keys has an entry without a revision")
            name = _read_first_field(value).decode(errors="surrogateescape")
            if key[_REVISION_SIZE:] == b"t":
                live.pop(name, None)
            else:
                live[name] = key
        return live

    def _read_meta(self, name: str) -> None:
        """Find the newer of the two meta pages that is intact."""
        best = -1
        first = self._unpack(_META, _PAGE_HEADER.size)
        sizes = {first[2]} if first[0] == _MAGIC else {4096, 8192, 16384, 65536}
        for offset in (0, *sizes):
            at = offset + _PAGE_HEADER.size
            if at + _META.size + 8 > len(self._data):
                continue
            magic, version, page_size, _, root, _, _, _, transaction = self._unpack(_META, at)
            found = self._data[at : at + _META.size]
            (checksum,) = struct.unpack_from("<Q", self._data, at + _META.size)
            is_intact = (magic, version, checksum) == (_MAGIC, _VERSION, compute_fnv(found))
            if is_intact and transaction > best:
                best, self._page_size, self._root = transaction, page_size, root
        if best < 0 or self._page_size < _SECTOR:
            raise DatabaseError(f"{name} is no etcd database")

    def _iterate_bucket(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, value, flags in self._iterate_tree(self._root):
            if key == name and flags & _BUCKET_FLAG:
                if len(value) < _BUCKET.size:
                    break
                root, _ = _BUCKET.unpack_from(value)
                if not root:  # a small bucket is stored inline
                    yield from ((k, v) for k, v, _ in _iterate_leaf(value[_BUCKET.size :]))
                else:
                    yield from ((k, v) for k, v, _ in self._iterate_tree(root))
                return
        raise DatabaseError(f"the bucket {name.decode()} is missing")

    def _iterate_tree(self, page_id: int) -> Iterator[tuple[bytes, bytes, int]]:
        if page_id in self._visited:
            raise DatabaseError("a page of the database is used twice")
        self._visited.add(page_id)
        start = page_id * self._page_size
        _, flags, count, overflow = self._unpack(_PAGE_HEADER, start)
        page = self._data[start : start + (overflow + 1) * self._page_size]
        if flags & _BRANCH_FLAG:
            for number in range(count):
                at = _PAGE_HEADER.size + number * _ELEMENT_SIZE
                if at + _ELEMENT_SIZE > len(page):
                    raise DatabaseError("a page of the database is cut off")
                yield from self._iterate_tree(_BRANCH.unpack_from(page, at)[2])
        elif flags & _LEAF_FLAG:
            yield from _iterate_leaf(page)
        else:
            raise DatabaseError(f"page {page_id} of the database is of an unknown type")

    def _unpack(self, form: struct.Struct, offset: int) -> tuple[int, ...]:
        try:
            return form.unpack_from(self._data, offset)
        except struct.error as problem:
            raise DatabaseError("the database is cut off") from problem


def count_by_resource(keys: dict[str, int]) -> dict[str, int]:
    """Return the number of live objects of each resource, such as `pods`."""
    found: dict[str, int] = {}
    for key in keys:
        resource = get_resource(key)
        if resource:
            found[resource] = found.get(resource, 0) + 1
    return found


def get_resource(key: str) -> str:
    """Return the resource of a key below /registry/, with its group if that is in the key."""
    parts = key.split("/")
    if len(parts) < 4 or parts[:2] != ["", "registry"]:
        return ""
    if "." in parts[2] and len(parts) > 4:
        return f"{parts[3]}.{parts[2]}"
    return f"services/{parts[3]}" if parts[2] == "services" else parts[2]


def _iterate_leaf(page: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    try:
        count = _PAGE_HEADER.unpack_from(page)[2]
        for number in range(count):
            at = _PAGE_HEADER.size + number * _ELEMENT_SIZE
            flags, position, key_size, value_size = _LEAF.unpack_from(page, at)
            start, middle = at + position, at + position + key_size
            if middle + value_size > len(page):
                raise DatabaseError("a page of the database is cut off")
            yield page[start:middle], page[middle : middle + value_size], flags
    except struct.error as problem:
        raise DatabaseError("a page of the database is cut off") from problem


def _read_first_field(message: bytes) -> bytes:
    """Return field 1 of a protobuf message `mvccpb.KeyValue`, which is the key."""
    if not message or message[0] != 0x0A:
        return b""
    size, shift, at = 0, 0, 1
    while at < len(message) and shift < 64:
        size |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not message[at - 1] & 0x80:
            return message[at : at + size]
    raise DatabaseError("an entry of the database cannot be read")


def compute_fnv(content: bytes) -> int:
    """Return the FNV-1a hash with 64 bits, which bbolt has in its meta pages."""
    value = 0xCBF29CE484222325
    for each in content:
        value = ((value ^ each) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
