"""Which way: a certificate that does not verify turns it, a kubelet that is down does not."""

import pytest

from vnagent.authz.metrics import Mode, Why
from vnagent.upstream.upstream_mode import (
    HOLD_SECONDS,
    LONGEST_HOLD_SECONDS,
    RELAPSE_SECONDS,
    Choice,
    Sight,
    Wish,
    after,
    at_start,
)

V, U, D = Sight.VERIFIED, Sight.UNTRUSTED, Sight.DOWN
A, K = Mode.APISERVER, Mode.KUBELET


def told(*sights: tuple[float, Sight]) -> list[tuple[Mode, Why]]:
    """Return mode and reason after each sight, from the start of `auto`."""
    choice, found = at_start(Wish.AUTO), []
    for now, sight in sights:
        choice = after(choice, sight, now)
        found.append((choice.mode, choice.why))
    return found


def modes(*sights: tuple[float, Sight]) -> list[Mode]:
    return [mode for mode, _ in told(*sights)]


def test_it_begins_straight_and_says_that_nothing_was_seen():
    """The first call may come before the first look."""
    assert (at_start(Wish.AUTO).mode, at_start(Wish.AUTO).why) == (K, Why.UNSEEN)


def test_the_first_sight_decides():
    """At the start no patience is needed."""
    assert told((0, V)) == [(K, Why.VERIFIED)]
    assert told((0, U)) == [(A, Why.UNTRUSTED)]


def test_a_kubelet_that_is_down_turns_nothing():
    """For however long: neither away from it, nor back to it."""
    down = [(float(second), D) for second in range(1, 600, 10)]
    assert set(told((0, V), *down)) == {(K, Why.VERIFIED)}
    assert set(told(*down)) == {(K, Why.UNSEEN)}
    assert set(modes((0, U), *down)) == {A}


def test_the_way_back_takes_a_certificate_that_keeps_verifying():
    """Two handshakes in a moment are one proof; what breaks the row begins it anew."""
    assert modes((0, U), (5, V), (5.1, V)) == [A, A, A]
    assert modes((0, U), (5, V), (5 + HOLD_SECONDS, V)) == [A, A, K]
    assert modes((0, U), (5, V), (10, D), (15, V), (20, V)) == [A] * 5
    assert modes((0, U), (5, V), (10, U), (15, V), (20, V)) == [A] * 5
    assert modes((0, U), (5, V), (10, D), (15, V), (20, V), (25, V))[-1] is K


def test_a_relapse_takes_longer_each_time_and_never_longer_than_a_minute():
    """A kubelet between two certificates must not send streams to and fro."""
    choice, now, waits = at_start(Wish.AUTO), 0.0, []
    for _ in range(5):
        choice = after(choice, U, now)
        began = now
        while choice.mode is A:
            now += 5
            choice = after(choice, V, now)
        waits.append(now - began - 5)
    assert waits == [10, 20, 40, 60, 60]
    assert max(waits) == LONGEST_HOLD_SECONDS
    choice = after(choice, U, now + RELAPSE_SECONDS)
    assert choice.hold_seconds == HOLD_SECONDS


@pytest.mark.parametrize("wish", [Wish.KUBELET, Wish.APISERVER])
def test_what_is_configured_stays(wish):
    """Whatever is seen: with `kubelet` an untrusted one is refused, never gone around."""
    choice = at_start(wish)
    assert (choice.mode.value, choice.why) == (wish.value, Why.CONFIGURED)
    for now, sight in enumerate((U, V, D, V, V)):
        assert after(choice, sight, 100.0 * now) == choice


def test_a_choice_says_since_when():
    """Hysteresis counts from the change, not from the last look."""
    choice = after(at_start(Wish.AUTO), U, 7)
    assert choice.since == 7
    assert after(choice, U, 9).since == 7
    assert isinstance(choice, Choice)
