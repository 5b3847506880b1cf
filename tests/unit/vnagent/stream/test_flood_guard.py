"""A peer that makes TLS work is disconnected, and no peer that sends data."""

import pytest

from vnagent.stream.flood_guard import (
    MAX_BARREN_BYTES,
    MAX_CIPHERTEXT_PER_BYTE,
    MAX_UNSENT_BYTES,
    SMALL_READ_BYTES,
    FloodGuard,
)

TYPED_BYTES = 23
"""Ciphertext of a record of one byte."""


def test_updates_of_keys_alone_are_a_flood():
    guard = FloodGuard()
    assert not guard.is_suspect
    assert not guard.check_read(SMALL_READ_BYTES, 0, 0)
    assert guard.is_suspect
    assert guard.check_read(MAX_BARREN_BYTES - SMALL_READ_BYTES, 0, 0)


def test_the_longest_record_may_come_in_any_number_of_reads():
    """None of them but the last brings plaintext."""
    guard = FloodGuard()
    for _ in range(16 * 1024):
        assert not guard.check_read(1, 0, 0)
    assert not guard.check_read(1000, 16 * 1024, 0)
    assert not guard.is_suspect


def test_little_plaintext_does_not_excuse_many_updates():
    """Otherwise one byte now and then would."""
    guard = FloodGuard()
    assert any(guard.check_read(SMALL_READ_BYTES, 100, 0) for _ in range(10))


@pytest.mark.parametrize("typed", [1, 700])
def test_bytes_typed_one_by_one_are_never_suspect(typed):
    guard = FloodGuard()
    for _ in range(1000):
        assert not guard.check_read(typed * TYPED_BYTES, typed, 0)
        assert not guard.is_suspect
    assert TYPED_BYTES <= MAX_CIPHERTEXT_PER_BYTE


def test_plaintext_is_not_saved_up():
    """A stream of hours would excuse a flood of minutes."""
    guard = FloodGuard()
    for _ in range(1000):
        assert not guard.check_read(64 * 1024, 64 * 1024, 0)
    assert guard.check_read(MAX_BARREN_BYTES, 0, 0)


def test_unread_answers_are_a_flood():
    """TLS answers key updates by itself, past all back-pressure."""
    guard = FloodGuard()
    assert not guard.check_read(100, 100, MAX_UNSENT_BYTES)
    assert "does not read" in guard.check_read(100, 100, MAX_UNSENT_BYTES + 1)
