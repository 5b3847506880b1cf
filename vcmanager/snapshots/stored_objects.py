"""Changes of fields in stored Kubernetes objects, in the encoding of protobuf.

The API server stores `k8s\\0` and a message `runtime.Unknown`. Its field 2 is the object. Only the
named fields are decoded. All other fields stay byte for byte.
Must not import anything outside the standard library and its own folder.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_PREFIX = b"k8s\0"
ENCRYPTED_PREFIX = b"k8s:enc:"
_RAW = 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Path = tuple[int, ...]
"""Numbers of the fields from the object on."""


class UnreadableObjectError(ValueError):
    """A stored object is no protobuf message."""


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of a message."""

    number: int
    kind: int
    content: bytes
    """Bytes of the value, without the length."""


Edit = Callable[[bytes], bytes | None]
"""Returns the new content of a field. None deletes the field."""


def drop_field(_: bytes) -> None:
    """Delete a field."""


def edit_object(value: bytes, edits: Iterable[tuple[Path, Edit]]) -> bytes:
    """Return a stored object with changed fields."""
    if not value.startswith(_PREFIX):
        raise UnreadableObjectError("the stored object is not in the encoding of protobuf")
    found = value[len(_PREFIX) :]
    for path, edit in edits:
        found = edit_message(found, (_RAW, *path), edit)
    return _PREFIX + found


def read_fields(value: bytes, path: Path) -> list[bytes]:
    """Return the contents of all fields of a stored object with this path."""
    if not value.startswith(_PREFIX):
        raise UnreadableObjectError("the stored object is not in the encoding of protobuf")
    found = [value[len(_PREFIX) :]]
    for number in (_RAW, *path):
        found = [
            field.content
            for message in found
            for field in iterate_fields(message)
            if field.number == number
        ]
    return found


def edit_message(message: bytes, path: Path, edit: Edit) -> bytes:
    """Return a message with the fields of a path changed. Repeated fields change one by one."""
    number, *rest = path
    found = bytearray()
    for field in iterate_fields(message):
        content: bytes | None = field.content
        if field.number == number and not rest:
            content = edit(field.content)
        elif field.number == number and field.kind == _BYTES:
            content = edit_message(field.content, tuple(rest), edit)
        if content is not None:
            found += build_field(WireField(field.number, field.kind, content))
    return bytes(found)


def iterate_fields(message: bytes) -> Iterator[WireField]:
    """Yield the fields of a message. Raises UnreadableObjectError."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            start = at
            _, at = _read_varint(message, at)
        elif kind == _BYTES:
            size, start = _read_varint(message, at)
            at = start + size
        elif kind in (_FIXED64, _FIXED32):
            start, at = at, at + (8 if kind == _FIXED64 else 4)
        else:
            raise UnreadableObjectError(f"a field has the unknown wire type {kind}")
        if at > len(message):
            raise UnreadableObjectError("a field is cut off")
        yield WireField(number, kind, message[start:at])


def build_field(field: WireField) -> bytes:
    """Return the bytes of a field."""
    head = _build_varint(field.number << 3 | field.kind)
    if field.kind == _BYTES:
        head += _build_varint(len(field.content))
    return head + field.content


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        value |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not message[at - 1] & 0x80:
            return value, at
    raise UnreadableObjectError("a number is cut off")


def _build_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
