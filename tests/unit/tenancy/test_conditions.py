"""Conditions keep their transition time while their status stays."""

from tenancy import conditions


def made(kind: str, status: str, now: str) -> conditions.Condition:
    return conditions.condition(kind, status, "Why", "A sentence.", now=now, generation=2)  # type: ignore[arg-type]


def test_the_time_moves_only_with_the_status():
    old = [made("Ready", "True", "then"), made("Synced", "False", "then")]
    new = [made("Ready", "True", "now"), made("Synced", "True", "now"), made("New", "True", "now")]
    carried = conditions.carry_times(old, new)
    assert [c["lastTransitionTime"] for c in carried] == ["then", "now", "now"]


def test_is_true_needs_the_condition_to_be_there():
    assert conditions.is_true([made("Ready", "True", "now")], "Ready")
    assert not conditions.is_true([made("Ready", "Unknown", "now")], "Ready")
    assert not conditions.is_true(None, "Ready")
