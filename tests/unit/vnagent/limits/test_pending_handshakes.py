"""Places of those who are not known yet, and who gives his up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.limits.pending_handshakes import (
    MIN_PENDING_SECONDS,
    PendingHandshake,
    PendingHandshakes,
)


def nobody(_: str) -> bool:
    """No one was let in lately."""
    return False


def come(strangers: PendingHandshakes, source: str, now: float = 0.0) -> PendingHandshake:
    """Give a place to one more."""
    stranger = PendingHandshake(source, now)
    strangers.add(stranger)
    return stranger


def test_places_of_one_address_leave_room_for_others():
    """And they come back, once each."""
    strangers = PendingHandshakes(per_source=2, total=3)
    first, second = come(strangers, "a"), come(strangers, "a")
    assert strangers.is_full("a")
    assert not strangers.is_full("b")
    third = come(strangers, "b")
    assert strangers.is_full("c")
    for stranger in (first, second, third, first):
        strangers.remove(stranger)
    assert strangers.count == 0
    assert not strangers.is_full("a")


def test_the_address_with_the_most_handshakes_loses_its_oldest():
    """SEC-15, REL-85: to an address that holds less even with one more."""
    strangers = PendingHandshakes(per_source=5, total=6)
    oldest, *_ = [come(strangers, "a") for _ in range(3)]
    [come(strangers, "b") for _ in range(2)]
    come(strangers, "c")
    assert strangers.choose_victim(PendingHandshake("c", 0.0), nobody) is oldest
    assert strangers.choose_victim(PendingHandshake("new", 0.0), nobody) is oldest
    assert strangers.choose_victim(PendingHandshake("b", 0.0), nobody) is None
    assert strangers.choose_victim(PendingHandshake("a", 0.0), nobody) is None


def test_a_tenants_address_comes_first_and_leaves_last():
    """However many are in their handshake there."""
    strangers = PendingHandshakes(per_source=5, total=3)
    come(strangers, "tenant")
    other, _ = come(strangers, "other"), come(strangers, "third")
    assert strangers.choose_victim(PendingHandshake("tenant", 0.0), "tenant".__eq__) is other
    assert strangers.choose_victim(PendingHandshake("new", 0.0), "tenant".__eq__) is None


def test_silent_tenants_keep_no_client_out():
    """An address with many places takes none from one that has fewer, though it was let in."""
    strangers = PendingHandshakes(per_source=5, total=6)
    [come(strangers, "a") for _ in range(5)]
    come(strangers, "new")
    assert strangers.choose_victim(PendingHandshake("a", 0.0), "ab".__contains__) is None
    assert strangers.choose_victim(PendingHandshake("b", 0.0), "ab".__contains__) is not None


def test_of_equal_crowds_the_one_that_is_longest_there():
    """Or who comes again and again hides those who are silent."""
    strangers = PendingHandshakes(per_source=5, total=2)
    come(strangers, "busy", 1.0)
    oldest = come(strangers, "silent", 0.0)
    assert strangers.choose_victim(PendingHandshake("new", MIN_PENDING_SECONDS), nobody) is oldest


def test_tenants_share_what_they_fill():
    """Where no one but they is there."""
    strangers = PendingHandshakes(per_source=5, total=4)
    oldest, *_ = [come(strangers, "a") for _ in range(4)]
    assert strangers.choose_victim(PendingHandshake("b", 0.0), "ab".__contains__) is oldest


@pytest.mark.parametrize("source", ["a", "new"])
def test_a_long_silence_costs_a_place(source):
    """Though each address has one place only, and at an address that has all of its own."""
    strangers = PendingHandshakes(per_source=1, total=2)
    oldest = come(strangers, "a")
    come(strangers, "b", 0.5)
    assert (
        strangers.choose_victim(PendingHandshake(source, 0.9 * MIN_PENDING_SECONDS), nobody) is None
    )
    assert strangers.choose_victim(PendingHandshake(source, MIN_PENDING_SECONDS), nobody) is oldest


SOURCES = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(SOURCES, st.floats(0.0, 0.3))), st.sets(SOURCES))
def test_no_limit_is_ever_passed(steps, welcome):
    """SEC-15, REL-85: who is shown out was there, at a full newcomer's address too."""
    strangers, now, there = PendingHandshakes(per_source=3, total=8), 0.0, set()
    for source, pause in steps:
        now += pause
        newcomer = PendingHandshake(source, now)
        if strangers.is_full(source):
            found = strangers.choose_victim(newcomer, welcome.__contains__)
            if found is None:
                continue
            assert found in there
            assert found.source == source or sum(s.source == source for s in there) < 3
            strangers.remove(found)
            there.remove(found)
        strangers.add(newcomer)
        there.add(newcomer)
        assert strangers.count == len(there) <= 8
        assert sum(s.source == source for s in there) <= 3
