"""Banned addresses: only after repeated refusals, and for a short time."""

from vnagent.limits.peer_backoff import TRUSTED_SECONDS, PeerBackoff


def test_a_burst_is_accepted_and_then_one_at_intervals():
    """SEC-15: one that hammers is heard as often as one that comes at the pace."""
    backoff, heard = PeerBackoff(3, 5.0), []
    for tenth in range(301):
        now = tenth / 10
        if not backoff.is_banned("a", now):
            backoff.count_refusal("a", now)
            heard.append(now)
    assert heard == [0, 0.1, 0.2, 5, 10, 15, 20, 25, 30]
    assert not backoff.is_banned("b", now)


def test_refusals_of_those_that_came_in_together_add_no_time():
    """However many handshakes were under way when the door was shut."""
    backoff = PeerBackoff(3, 5.0)
    for _ in range(100):
        backoff.count_refusal("a", 0.0)
    assert backoff.is_banned("a", 4.9)
    assert not backoff.is_banned("a", 5.0)


def test_it_is_reported_once():
    """Not at each turn that comes back. Again after it has been quiet."""
    backoff = PeerBackoff(3, 5.0)
    assert [backoff.count_refusal("a", 0.0) for _ in range(5)] == [False, False, True, False, False]
    assert [backoff.count_refusal("a", now) for now in (5.0, 10.0)] == [False, False]
    assert [backoff.count_refusal("a", 1000.0) for _ in range(4)] == [False, False, True, False]


def test_an_address_of_a_tenant_is_not_shut():
    """SEC-15: for a while after it was let in."""
    backoff = PeerBackoff(3, 5.0)
    backoff.trust("a", 0.0)
    assert [backoff.count_refusal("a", 1.0) for _ in range(10)] == [False] * 10
    assert not backoff.is_banned("a", 1.0)
    late = TRUSTED_SECONDS + 1
    for _ in range(3):
        backoff.count_refusal("a", late)
    assert backoff.is_banned("a", late)
    backoff.trust("a", late)
    assert not backoff.is_banned("a", late)


def test_what_is_remembered_is_bounded():
    """SEC-15: an attacker with many addresses takes no memory. Those seen last are known."""
    backoff = PeerBackoff(1, 5.0, remembered=100)
    backoff.count_refusal("busy", 0.0)
    for number in range(10_000):
        backoff.count_refusal(f"source-{number}", 0.0)
        backoff.trust("busy", -2 * TRUSTED_SECONDS)  # seen again, if to no avail
        backoff.is_banned(f"never-{number}", 0.0)
    assert len(backoff) == 100
    assert backoff.is_banned("busy", 0.0)
    assert backoff.is_banned("source-9999", 0.0)
    assert not backoff.is_banned("source-0", 0.0)
