"""Conditions keep their transition time while their status stays."""

import pytest

from tenancy import conditions


def made(kind: str, status: str, now: str) -> conditions.Condition:
    return conditions.build_condition(kind, status, "Why", "A sentence.", now=now, generation=2)  # type: ignore[arg-type]


def test_the_time_moves_only_with_the_status():
    then = "2026-01-01T00:00:00Z"
    old = [made("Ready", "True", then), made("Synced", "False", then)]
    new = [made("Ready", "True", "now"), made("Synced", "True", "now"), made("New", "True", "now")]
    carried = conditions.carry_transition_times(old, new)
    assert [c["lastTransitionTime"] for c in carried] == [then, "now", "now"]


@pytest.mark.parametrize(
    "odd",
    ["2026-03-01T11:59:00z+", "2026-03-01T11:59:00+99:99", "0000-01-01T00:00:00Z", "", None, 7],
)
def test_a_time_that_cannot_be_read_is_not_carried(odd):
    """A status that the API server accepts and that no program here can read."""
    old = made("Ready", "True", odd)
    assert conditions.parse_transition_time(old) is None
    (carried,) = conditions.carry_transition_times([old], [made("Ready", "True", "now")])
    assert carried["lastTransitionTime"] == "now"


def test_is_true_needs_the_condition_to_be_there():
    assert conditions.is_true([made("Ready", "True", "now")], "Ready")
    assert not conditions.is_true([made("Ready", "Unknown", "now")], "Ready")
    assert not conditions.is_true(None, "Ready")


def test_a_message_has_no_control_characters():
    """SEC-55: parts of a message are the text of a server's error."""
    made = conditions.build_condition(
        "Ready", "False", "Why", "etcd:\x1b[2J ok\n", now="now", generation=1
    )
    assert made["message"] == "etcd:\\u001b[2J ok\n"
