"""The path of calls: an unverified certificate changes it, a kubelet that is down does not."""

import pytest

from vnagent.authz.metrics import ModeReason, UpstreamMode
from vnagent.upstream.upstream_mode import (
    MAX_VERIFY_HOLD_SECONDS,
    RELAPSE_SECONDS,
    VERIFY_HOLD_SECONDS,
    ConnectResult,
    UpstreamSetting,
    UpstreamState,
    initial_state,
    next_state,
)

V, U, D = ConnectResult.VERIFIED, ConnectResult.UNTRUSTED, ConnectResult.DOWN
A, K = UpstreamMode.APISERVER, UpstreamMode.KUBELET


def told(*sights: tuple[float, ConnectResult]) -> list[tuple[UpstreamMode, ModeReason]]:
    """Return mode and reason after each sight, from the start of `auto`."""
    choice, found = initial_state(UpstreamSetting.AUTO), []
    for now, sight in sights:
        choice = next_state(choice, sight, now)
        found.append((choice.mode, choice.reason))
    return found


def modes(*sights: tuple[float, ConnectResult]) -> list[UpstreamMode]:
    return [mode for mode, _ in told(*sights)]


def test_it_begins_straight_and_reports_that_nothing_was_seen():
    """The first call may come before the first look."""
    assert (
        initial_state(UpstreamSetting.AUTO).mode,
        initial_state(UpstreamSetting.AUTO).reason,
    ) == (K, ModeReason.NOT_CONNECTED)


def test_the_first_sight_decides():
    """At the start no patience is needed."""
    assert told((0, V)) == [(K, ModeReason.VERIFIED)]
    assert told((0, U)) == [(A, ModeReason.UNTRUSTED)]


def test_a_kubelet_that_is_down_turns_nothing():
    """For however long: neither away from it, nor back to it."""
    down = [(float(second), D) for second in range(1, 600, 10)]
    assert set(told((0, V), *down)) == {(K, ModeReason.VERIFIED)}
    assert set(told(*down)) == {(K, ModeReason.NOT_CONNECTED)}
    assert set(modes((0, U), *down)) == {A}


def test_the_way_back_takes_a_certificate_that_keeps_verifying():
    """Two handshakes in a moment are one proof. What breaks the row begins it again."""
    assert modes((0, U), (5, V), (5.1, V)) == [A, A, A]
    assert modes((0, U), (5, V), (5 + VERIFY_HOLD_SECONDS, V)) == [A, A, K]
    assert modes((0, U), (5, V), (10, D), (15, V), (20, V)) == [A] * 5
    assert modes((0, U), (5, V), (10, U), (15, V), (20, V)) == [A] * 5
    assert modes((0, U), (5, V), (10, D), (15, V), (20, V), (25, V))[-1] is K


def test_a_relapse_takes_longer_each_time_and_never_longer_than_a_minute():
    """A kubelet between two certificates must not send streams to and fro."""
    choice, now, waits = initial_state(UpstreamSetting.AUTO), 0.0, []
    for _ in range(5):
        choice = next_state(choice, U, now)
        began = now
        while choice.mode is A:
            now += 5
            choice = next_state(choice, V, now)
        waits.append(now - began - 5)
    assert waits == [10, 20, 40, 60, 60]
    assert max(waits) == MAX_VERIFY_HOLD_SECONDS
    choice = next_state(choice, U, now + RELAPSE_SECONDS)
    assert choice.hold_seconds == VERIFY_HOLD_SECONDS


@pytest.mark.parametrize("wish", [UpstreamSetting.KUBELET, UpstreamSetting.APISERVER])
def test_what_is_configured_stays(wish):
    """Whatever is seen: with `kubelet` an untrusted one is refused, never gone around."""
    choice = initial_state(wish)
    assert (choice.mode.value, choice.reason) == (wish.value, ModeReason.CONFIGURED)
    for now, sight in enumerate((U, V, D, V, V)):
        assert next_state(choice, sight, 100.0 * now) == choice


def test_a_choice_reports_since_when():
    """Hysteresis counts from the change, not from the last look."""
    choice = next_state(initial_state(UpstreamSetting.AUTO), U, 7)
    assert choice.since == 7
    assert next_state(choice, U, 9).since == 7
    assert isinstance(choice, UpstreamState)
