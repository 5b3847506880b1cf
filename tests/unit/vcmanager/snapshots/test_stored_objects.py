"""Wire format of protobuf: unknown fields stay byte for byte, and broken messages are refused."""

import pytest

from vcmanager.snapshots import stored_objects
from vcmanager.snapshots.stored_objects import UnreadableObjectError, WireField, build_field

VARINT = b"\x08\x96\x01"
FIXED = b"\x11" + bytes(8) + b"\x1d" + bytes(4)
TEXT = build_field(WireField(4, 2, b"x" * 300))


def test_all_wire_types_stay_as_they_are():
    message = VARINT + FIXED + TEXT
    found = list(stored_objects.iterate_fields(message))
    assert [(each.number, each.kind) for each in found] == [(1, 0), (2, 1), (3, 5), (4, 2)]
    assert b"".join(map(build_field, found)) == message
    assert stored_objects.edit_message(message, (9,), stored_objects.drop_field) == message


def test_a_field_is_dropped_changed_and_read_at_its_path():
    inner = build_field(WireField(3, 2, b"a")) + build_field(WireField(3, 2, b"b")) + VARINT
    value = b"k8s\0" + build_field(WireField(2, 2, build_field(WireField(5, 2, inner))))
    assert stored_objects.read_fields(value, (5, 3)) == [b"a", b"b"]
    changed = stored_objects.edit_object(value, [((5, 3), bytes.upper)])
    assert stored_objects.read_fields(changed, (5, 3)) == [b"A", b"B"]
    dropped = stored_objects.edit_object(value, [((5, 3), stored_objects.drop_field)])
    assert stored_objects.read_fields(dropped, (5, 3)) == []
    assert stored_objects.read_fields(dropped, (5,)) == [VARINT]


@pytest.mark.parametrize("message", [b"\x08", b"\x12\x05ab", b"\x0b", b"\x11\x00", b"\xff" * 11])
def test_a_broken_message_is_refused(message: bytes):
    with pytest.raises(UnreadableObjectError):
        list(stored_objects.iterate_fields(message))


def test_another_encoding_is_refused():
    with pytest.raises(UnreadableObjectError):
        stored_objects.edit_object(b"{}", [((2,), stored_objects.drop_field)])
    with pytest.raises(UnreadableObjectError):
        stored_objects.read_fields(b"{}", (2,))
