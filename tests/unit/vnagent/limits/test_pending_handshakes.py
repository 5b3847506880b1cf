"""Places of those who are not known yet, and who gives his up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.limits.pending_handshakes import (
    MIN_PENDING_SECONDS,
    PendingHandshake,
    PendingHandshakes,
)


def no_tenant(_: str) -> bool:
    """No one was let in lately."""
    return False


def come(pending: PendingHandshakes, source: str, now: float = 0.0) -> PendingHandshake:
    """Give a place to one more."""
    handshake = PendingHandshake(source, now)
    pending.add(handshake)
    return handshake


def test_places_of_one_address_leave_room_for_others():
    """They return, once each."""
    pending = PendingHandshakes(per_source=2, total=3)
    first, second = come(pending, "a"), come(pending, "a")
    assert pending.is_full("a")
    assert not pending.is_full("b")
    third = come(pending, "b")
    assert pending.is_full("c")
    for handshake in (first, second, third, first):
        pending.remove(handshake)
    assert pending.count == 0
    assert not pending.is_full("a")


def test_the_address_with_the_most_handshakes_loses_its_oldest():
    """SEC-15, REL-85: to an address that holds less even with one more."""
    pending = PendingHandshakes(per_source=5, total=6)
    oldest, *_ = [come(pending, "a") for _ in range(3)]
    [come(pending, "b") for _ in range(2)]
    come(pending, "c")
    assert pending.choose_victim(PendingHandshake("c", 0.0), no_tenant) is oldest
    assert pending.choose_victim(PendingHandshake("new", 0.0), no_tenant) is oldest
    assert pending.choose_victim(PendingHandshake("b", 0.0), no_tenant) is None
    assert pending.choose_victim(PendingHandshake("a", 0.0), no_tenant) is None


def test_a_tenants_address_comes_first_and_leaves_last():
    """However many are in their handshake there."""
    pending = PendingHandshakes(per_source=5, total=3)
    come(pending, "tenant")
    other, _ = come(pending, "other"), come(pending, "third")
    assert pending.choose_victim(PendingHandshake("tenant", 0.0), "tenant".__eq__) is other
    assert pending.choose_victim(PendingHandshake("new", 0.0), "tenant".__eq__) is None


def test_silent_tenants_keep_no_client_out():
    """An address with many places takes none from one that has fewer, though it was let in."""
    pending = PendingHandshakes(per_source=5, total=6)
    [come(pending, "a") for _ in range(5)]
    come(pending, "new")
    assert pending.choose_victim(PendingHandshake("a", 0.0), "ab".__contains__) is None
    assert pending.choose_victim(PendingHandshake("b", 0.0), "ab".__contains__) is not None


def test_of_equal_crowds_the_one_that_is_longest_there():
    """Otherwise a repeated caller hides the silent ones."""
    pending = PendingHandshakes(per_source=5, total=2)
    come(pending, "busy", 1.0)
    oldest = come(pending, "silent", 0.0)
    assert pending.choose_victim(PendingHandshake("new", MIN_PENDING_SECONDS), no_tenant) is oldest


def test_tenants_share_what_they_fill():
    """Where no one but they is there."""
    pending = PendingHandshakes(per_source=5, total=4)
    oldest, *_ = [come(pending, "a") for _ in range(4)]
    assert pending.choose_victim(PendingHandshake("b", 0.0), "ab".__contains__) is oldest


@pytest.mark.parametrize("source", ["a", "new"])
def test_a_long_silence_costs_a_place(source):
    """Though each address has one place only, and at an address that has all of its own."""
    pending = PendingHandshakes(per_source=1, total=2)
    oldest = come(pending, "a")
    come(pending, "b", 0.5)
    assert (
        pending.choose_victim(PendingHandshake(source, 0.9 * MIN_PENDING_SECONDS), no_tenant)
        is None
    )
    assert pending.choose_victim(PendingHandshake(source, MIN_PENDING_SECONDS), no_tenant) is oldest


SOURCES = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(SOURCES, st.floats(0.0, 0.3))), st.sets(SOURCES))
def test_no_limit_is_ever_passed(steps, welcome):
    """SEC-15, REL-85: who is shown out was there, at a full newcomer's address too."""
    pending, now, there = PendingHandshakes(per_source=3, total=8), 0.0, set()
    for source, pause in steps:
        now += pause
        newcomer = PendingHandshake(source, now)
        if pending.is_full(source):
            found = pending.choose_victim(newcomer, welcome.__contains__)
            if found is None:
                continue
            assert found in there
            assert found.source == source or sum(s.source == source for s in there) < 3
            pending.remove(found)
            there.remove(found)
        pending.add(newcomer)
        there.add(newcomer)
        assert pending.count == len(there) <= 8
        assert sum(s.source == source for s in there) <= 3
