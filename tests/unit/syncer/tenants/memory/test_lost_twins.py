"""Super pods that ended before their tenant pods, by UID."""

from __future__ import annotations

from syncer.tenants.memory import lost_twins


def test_a_twin_that_was_seen_to_go_is_remembered_by_the_pods_uid(monkeypatch):
    monkeypatch.setattr(lost_twins, "MAX_LOST_TWINS", 3)
    memory = lost_twins.LostTwins()
    for number in range(5):
        memory.record_bound_twin_end(f"u{number}", was_deleting=number == 4, is_certain=True)
    assert memory.was_twin_end_observed("u4")
    memory.record_bound_twin_end("u4", was_deleting=True, is_certain=False)
    assert not memory.was_twin_end_observed("u4")  # perhaps it only lost its labels
    assert not memory.was_twin_end_observed("u3")
    assert [memory.is_bound_twin_lost(f"u{number}") for number in range(5)] == [False] * 2 + [
        True
    ] * 3
    assert [memory.was_twin_deleting(f"u{number}") for number in range(5)] == [False] * 4 + [True]
