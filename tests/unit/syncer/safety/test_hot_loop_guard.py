"""Differences that come back: how they are told apart, counted, parked and told."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.safety import hot_loop_guard as fuses
from syncer.safety.hot_loop_guard import (
    NEAR_SECONDS,
    PARK_SECONDS,
    PAUSE_SECONDS,
    REPEATS,
    WINDOW_SECONDS,
    WRITES,
    Fuse,
    Outcome,
    Part,
)
from tests.support.syncer.clocks import Clock

PART = Part(Key("vc", HOME, "Pod", "web", "p"), "super")


def tries(fuse: Fuse, times: int, *, digest: bytes = b"d", taken: bool = True) -> list[bool]:
    """Count a write some times."""
    return [fuse.tried(PART, digest, lambda: Outcome("spec.x", taken)) for _ in range(times)]


def test_the_fifth_write_of_a_difference_parks_it_for_a_while():
    """REL-38."""
    clock = Clock()
    fuse = Fuse(clock)
    assert tries(fuse, REPEATS) == [False] * (REPEATS - 1) + [True]
    assert fuse.is_parked(PART, b"d")
    assert not fuse.is_parked(PART, b"other")
    assert not fuse.is_parked(PART._replace(subresource="status"), b"d")
    assert fuse.parked() == {PART: "spec.x"}
    clock.now += PARK_SECONDS
    assert not fuse.is_parked(PART, b"d")
    assert tries(fuse, 1, taken=False) == [True]  # one more try, and it is parked again


def test_another_difference_and_another_occasion_begin_anew():
    clock = Clock()
    fuse = Fuse(clock)
    tries(fuse, REPEATS - 1)
    assert tries(fuse, 1, digest=b"other") == [False]
    tries(fuse, REPEATS - 1)
    clock.now += NEAR_SECONDS + 1
    assert tries(fuse, 1) == [False]  # drift of another day
    assert tries(fuse, REPEATS - 1) == [False] * (REPEATS - 2) + [True]
    # What the server does not take is no drift, however seldom it is tried.
    slow = Fuse(clock)
    found = []
    for _ in range(REPEATS):
        found += tries(slow, 1, taken=False)
        clock.now += 10 * NEAR_SECONDS
    assert found[-1]


def test_what_is_parked_ends_when_it_is_in_step_or_the_tenant_changes_the_object():
    clock = Clock()
    fuse = Fuse(clock)
    tries(fuse, REPEATS)
    assert not fuse.settled(PART)  # in step for a moment after our own write
    assert fuse.parked()
    clock.now += NEAR_SECONDS
    assert fuse.settled(PART)
    assert not fuse.parked()
    tries(fuse, REPEATS)
    fuse.forget(PART.key)
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


def many_parts(count: int) -> list[Part]:
    """Return parts of so many objects."""
    return [Part(PART.key._replace(name=Counted(number)), "super") for number in range(count)]


def test_a_write_costs_the_same_however_many_objects_there_are():
    fuse, parts = Fuse(Clock()), many_parts(4300)
    Counted.looks = 0
    for part in parts:
        fuse.wrote(part.key)
        fuse.tried(part, b"d", lambda: Outcome("spec.x", taken=True))
        fuse.tried(part._replace(side="tenant"), b"d", lambda: Outcome("spec.x", taken=True))
    for part in parts:
        fuse.wrote(part.key)
        fuse.forget(part.key)
    assert Counted.looks < 100 * len(parts)
    assert not fuse._repeats
    assert not fuse._parts


def test_what_is_remembered_of_writes_has_an_end_and_what_is_over_goes_first(monkeypatch):
    monkeypatch.setattr(fuses, "_MANY", 10)
    monkeypatch.setattr(fuses, "_MOST", 20)
    clock = Clock()
    fuse, parts = Fuse(clock), many_parts(60)
    for part in parts[:30]:
        for _ in range(WRITES + 1):
            fuse.wrote(part.key)
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    assert list(fuse._repeats) == parts[10:30]
    memories = (fuse._windows, fuse._paused, fuse._repeats, fuse._parts)
    assert [len(memory) for memory in memories] == [20, 20, 20, 20]
    clock.now += PARK_SECONDS
    fuse.settled(parts[29])
    for part in parts[30:35]:
        for _ in range(WRITES + 1):
            fuse.wrote(part.key)
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    assert [len(memory) for memory in memories] == [10, 10, 10, 10]
    assert list(fuse._repeats)[-5:] == parts[30:35]


def test_what_still_counts_is_not_forgotten_before_there_is_too_much_of_it(monkeypatch):
    monkeypatch.setattr(fuses, "_MANY", 10)
    monkeypatch.setattr(fuses, "_MOST", 20)
    clock = Clock()
    clock.now = PARK_SECONDS
    fuse, parts = Fuse(clock), many_parts(20)
    for part in parts:
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    assert list(fuse._repeats) == parts


def test_a_keys_window_is_over_at_its_end_and_a_pause_as_well():
    clock = Clock()
    fuse, key = Fuse(clock), PART.key
    for _ in range(WRITES):
        fuse.wrote(key)
    clock.now += WINDOW_SECONDS
    fuse.wrote(key)
    assert fuse.pause(key) == 0.0
    for _ in range(WRITES - 1):
        fuse.wrote(key)
    assert fuse.pause(key) == 0.0
    fuse.wrote(key)
    assert fuse.pause(key) == PAUSE_SECONDS
    clock.now += PAUSE_SECONDS - 1
    assert fuse.pause(key) == 1.0
    fuse.wrote(key)  # it waits anew after each further one
    assert fuse.pause(key) == PAUSE_SECONDS
    assert fuse.pause(key._replace(name="other")) == 0.0
    clock.now += PAUSE_SECONDS
    assert fuse.pause(key) == 0.0
    assert not fuse._paused


def test_what_is_known_of_a_difference():
    clock = Clock()
    fuse = Fuse(clock)
    assert not fuse.knows(PART)
    asked: list[str] = []

    def outcome() -> Outcome:
        asked.append("")
        return Outcome(f"spec.{len(asked)}", taken=True)

    assert not fuse.tried(PART, b"d", outcome)
    assert (fuse.knows(PART), asked) == (True, [])  # most are written once
    assert not fuse.knows(PART._replace(side="tenant"))
    clock.now += NEAR_SECONDS
    for _ in range(REPEATS - 2):
        assert not fuse.tried(PART, b"d", outcome)
    assert fuse.parked() == {}
    assert fuse.tried(PART, b"d", outcome)
    assert fuse.parked() == {PART: f"spec.{REPEATS - 1}"}
    clock.now += PARK_SECONDS - 1
    assert fuse.is_parked(PART, b"d")
    assert fuse.parked()
    clock.now += 1
    assert not fuse.is_parked(PART, b"d")
    assert fuse.parked() == {}


def test_what_settles_is_forgotten_and_only_what_was_parked_is_told():
    clock = Clock()
    fuse = Fuse(clock)
    assert not fuse.settled(PART)
    tries(fuse, 1)
    clock.now += NEAR_SECONDS - 1
    assert not fuse.settled(PART)
    assert fuse.knows(PART)
    clock.now += 1
    assert not fuse.settled(PART)  # it was never parked
    assert not fuse.knows(PART)
    assert not fuse._parts
    both = (PART, PART._replace(side="tenant"))
    for part in both:
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    clock.now += NEAR_SECONDS
    fuse.settled(PART)
    assert (fuse.knows(both[0]), fuse.knows(both[1])) == (False, True)
    fuse.forget(PART.key)
    assert not fuse.knows(both[1])
    fuse.forget(PART.key)


KEY = Key("vc", HOME, "Pod", "web", "p")


def test_a_key_that_flaps_is_slowed_and_never_stopped():
    """REL-38."""
    clock = Clock()
    fuse = Fuse(clock)
    for _ in range(WRITES):
        fuse.wrote(KEY)
    assert fuse.pause(KEY) == 0
    fuse.wrote(KEY)
    assert fuse.pause(KEY) == PAUSE_SECONDS
    clock.now += PAUSE_SECONDS
    assert fuse.pause(KEY) == 0
    clock.now += WINDOW_SECONDS
    fuse.wrote(KEY)
    assert fuse.pause(KEY) == 0
