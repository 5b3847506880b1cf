"""Differences that come back: how they are told apart, counted, parked and told."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.safety import hot_loop_guard as fuses
from syncer.safety.hot_loop_guard import (
    PARK_SECONDS,
    PAUSE_SECONDS,
    REPEAT_WINDOW_SECONDS,
    REPEATS_TO_PARK,
    WINDOW_SECONDS,
    WRITES_PER_WINDOW,
    HotLoopGuard,
    WriteOutcome,
    WriteScope,
)
from tests.support.syncer.clocks import Clock

PART = WriteScope(Key("vc", HOME, "Pod", "web", "p"), "super")


def tries(
    fuse: HotLoopGuard, times: int, *, digest: bytes = b"d", taken: bool = True
) -> list[bool]:
    """Count a write some times."""
    return [
        fuse.count_attempt(PART, digest, lambda: WriteOutcome("spec.x", taken))
        for _ in range(times)
    ]


def test_the_fifth_write_of_a_difference_parks_it_for_a_while():
    """REL-38."""
    clock = Clock()
    fuse = HotLoopGuard(clock)
    assert tries(fuse, REPEATS_TO_PARK) == [False] * (REPEATS_TO_PARK - 1) + [True]
    assert fuse.is_parked(PART, b"d")
    assert not fuse.is_parked(PART, b"other")
    assert not fuse.is_parked(PART._replace(subresource="status"), b"d")
    assert fuse.list_parked() == {PART: "spec.x"}
    clock.now += PARK_SECONDS
    assert not fuse.is_parked(PART, b"d")
    assert tries(fuse, 1, taken=False) == [True]  # one more try, and it is parked again


def test_another_difference_and_another_occasion_begin_again():
    clock = Clock()
    fuse = HotLoopGuard(clock)
    tries(fuse, REPEATS_TO_PARK - 1)
    assert tries(fuse, 1, digest=b"other") == [False]
    tries(fuse, REPEATS_TO_PARK - 1)
    clock.now += REPEAT_WINDOW_SECONDS + 1
    assert tries(fuse, 1) == [False]  # drift of another day
    assert tries(fuse, REPEATS_TO_PARK - 1) == [False] * (REPEATS_TO_PARK - 2) + [True]
    # What the server does not take is no drift, however seldom it is tried.
    slow = HotLoopGuard(clock)
    found = []
    for _ in range(REPEATS_TO_PARK):
        found += tries(slow, 1, taken=False)
        clock.now += 10 * REPEAT_WINDOW_SECONDS
    assert found[-1]


def test_what_is_parked_ends_when_it_is_in_step_or_the_tenant_changes_the_object():
    clock = Clock()
    fuse = HotLoopGuard(clock)
    tries(fuse, REPEATS_TO_PARK)
    assert not fuse.clear_if_converged(PART)  # in step for a moment after our own write
    assert fuse.list_parked()
    clock.now += REPEAT_WINDOW_SECONDS
    assert fuse.clear_if_converged(PART)
    assert not fuse.list_parked()
    tries(fuse, REPEATS_TO_PARK)
    fuse.forget_key(PART.key)
    assert not fuse.is_parked(PART, b"d")


class Counted(str):
    """A name that counts how often it is hashed or compared."""

    looks = 0
    __slots__ = ()

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__eq__(other)


def many_parts(count: int) -> list[WriteScope]:
    """Return parts of so many objects."""
    return [WriteScope(PART.key._replace(name=Counted(number)), "super") for number in range(count)]


def test_a_write_costs_the_same_however_many_objects_there_are():
    fuse, parts = HotLoopGuard(Clock()), many_parts(4300)
    Counted.looks = 0
    for part in parts:
        fuse.count_write(part.key)
        fuse.count_attempt(part, b"d", lambda: WriteOutcome("spec.x", is_accepted=True))
        fuse.count_attempt(
            part._replace(side="tenant"), b"d", lambda: WriteOutcome("spec.x", is_accepted=True)
        )
    for part in parts:
        fuse.count_write(part.key)
        fuse.forget_key(part.key)
    assert Counted.looks < 100 * len(parts)
    assert not fuse._repeats
    assert not fuse._scopes_by_key


def test_what_is_remembered_of_writes_has_an_end_and_what_is_over_goes_first(monkeypatch):
    monkeypatch.setattr(fuses, "_MAX_WINDOWS", 10)
    monkeypatch.setattr(fuses, "_MAX_REPEATS", 20)
    clock = Clock()
    fuse, parts = HotLoopGuard(clock), many_parts(60)
    for part in parts[:30]:
        for _ in range(WRITES_PER_WINDOW + 1):
            fuse.count_write(part.key)
        fuse.count_attempt(part, b"d", lambda: WriteOutcome("", is_accepted=True))
    assert list(fuse._repeats) == parts[10:30]
    memories = (fuse._write_times, fuse._paused, fuse._repeats, fuse._scopes_by_key)
    assert [len(memory) for memory in memories] == [20, 20, 20, 20]
    clock.now += PARK_SECONDS
    fuse.clear_if_converged(parts[29])
    for part in parts[30:35]:
        for _ in range(WRITES_PER_WINDOW + 1):
            fuse.count_write(part.key)
        fuse.count_attempt(part, b"d", lambda: WriteOutcome("", is_accepted=True))
    assert [len(memory) for memory in memories] == [10, 10, 10, 10]
    assert list(fuse._repeats)[-5:] == parts[30:35]


def test_what_still_counts_is_not_forgotten_before_there_is_too_much_of_it(monkeypatch):
    monkeypatch.setattr(fuses, "_MAX_WINDOWS", 10)
    monkeypatch.setattr(fuses, "_MAX_REPEATS", 20)
    clock = Clock()
    clock.now = PARK_SECONDS
    fuse, parts = HotLoopGuard(clock), many_parts(20)
    for part in parts:
        fuse.count_attempt(part, b"d", lambda: WriteOutcome("", is_accepted=True))
    assert list(fuse._repeats) == parts


def test_a_keys_window_is_over_at_its_end_and_a_pause_as_well():
    clock = Clock()
    fuse, key = HotLoopGuard(clock), PART.key
    for _ in range(WRITES_PER_WINDOW):
        fuse.count_write(key)
    clock.now += WINDOW_SECONDS
    fuse.count_write(key)
    assert fuse.get_pause(key) == 0.0
    for _ in range(WRITES_PER_WINDOW - 1):
        fuse.count_write(key)
    assert fuse.get_pause(key) == 0.0
    fuse.count_write(key)
    assert fuse.get_pause(key) == PAUSE_SECONDS
    clock.now += PAUSE_SECONDS - 1
    assert fuse.get_pause(key) == 1.0
    fuse.count_write(key)  # it waits again after each further one
    assert fuse.get_pause(key) == PAUSE_SECONDS
    assert fuse.get_pause(key._replace(name="other")) == 0.0
    clock.now += PAUSE_SECONDS
    assert fuse.get_pause(key) == 0.0
    assert not fuse._paused


def test_what_is_known_of_a_difference():
    clock = Clock()
    fuse = HotLoopGuard(clock)
    assert not fuse.has_history(PART)
    asked: list[str] = []

    def outcome() -> WriteOutcome:
        asked.append("")
        return WriteOutcome(f"spec.{len(asked)}", is_accepted=True)

    assert not fuse.count_attempt(PART, b"d", outcome)
    assert (fuse.has_history(PART), asked) == (True, [])  # most are written once
    assert not fuse.has_history(PART._replace(side="tenant"))
    clock.now += REPEAT_WINDOW_SECONDS
    for _ in range(REPEATS_TO_PARK - 2):
        assert not fuse.count_attempt(PART, b"d", outcome)
    assert fuse.list_parked() == {}
    assert fuse.count_attempt(PART, b"d", outcome)
    assert fuse.list_parked() == {PART: f"spec.{REPEATS_TO_PARK - 1}"}
    clock.now += PARK_SECONDS - 1
    assert fuse.is_parked(PART, b"d")
    assert fuse.list_parked()
    clock.now += 1
    assert not fuse.is_parked(PART, b"d")
    assert fuse.list_parked() == {}


def test_what_settles_is_forgotten_and_only_what_was_parked_is_reported():
    clock = Clock()
    fuse = HotLoopGuard(clock)
    assert not fuse.clear_if_converged(PART)
    tries(fuse, 1)
    clock.now += REPEAT_WINDOW_SECONDS - 1
    assert not fuse.clear_if_converged(PART)
    assert fuse.has_history(PART)
    clock.now += 1
    assert not fuse.clear_if_converged(PART)  # it was never parked
    assert not fuse.has_history(PART)
    assert not fuse._scopes_by_key
    both = (PART, PART._replace(side="tenant"))
    for part in both:
        fuse.count_attempt(part, b"d", lambda: WriteOutcome("", is_accepted=True))
    clock.now += REPEAT_WINDOW_SECONDS
    fuse.clear_if_converged(PART)
    assert (fuse.has_history(both[0]), fuse.has_history(both[1])) == (False, True)
    fuse.forget_key(PART.key)
    assert not fuse.has_history(both[1])
    fuse.forget_key(PART.key)


KEY = Key("vc", HOME, "Pod", "web", "p")


def test_a_key_that_flaps_is_slowed_and_never_stopped():
    """REL-38."""
    clock = Clock()
    fuse = HotLoopGuard(clock)
    for _ in range(WRITES_PER_WINDOW):
        fuse.count_write(KEY)
    assert fuse.get_pause(KEY) == 0
    fuse.count_write(KEY)
    assert fuse.get_pause(KEY) == PAUSE_SECONDS
    clock.now += PAUSE_SECONDS
    assert fuse.get_pause(KEY) == 0
    clock.now += WINDOW_SECONDS
    fuse.count_write(KEY)
    assert fuse.get_pause(KEY) == 0
