"""Coalescing of bytes: in floods only."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vnagent.stream.read_coalescing import (
    FULL_READ_BYTES,
    MAX_FLOOD_GAP_SECONDS,
    MAX_GAP_AFTER_REST_SECONDS,
    MAX_REST_SECONDS,
    MIN_FLOOD_READS,
    MIN_REST_SECONDS,
    ReadCoalescer,
)

FAST, SLOW = MAX_FLOOD_GAP_SECONDS / 2, MAX_FLOOD_GAP_SECONDS * 2
FEW = FULL_READ_BYTES - 1


def test_a_flood_rests():
    """From the ninth read on that follows the one before without a pause."""
    tempo = ReadCoalescer()
    rests = [
        tempo.record_read(number * FAST, FEW, is_all=True) for number in range(MIN_FLOOD_READS + 3)
    ]
    assert rests == [0.0] * MIN_FLOOD_READS + [MIN_REST_SECONDS] * 3


def test_a_pause_ends_a_flood():
    """Then as many reads are needed as at first."""
    tempo = ReadCoalescer()
    for number in range(MIN_FLOOD_READS + 1):
        tempo.record_read(number * FAST, FEW, is_all=True)
    start = MIN_FLOOD_READS * FAST + SLOW
    rests = [
        tempo.record_read(start + number * FAST, FEW, is_all=True)
        for number in range(MIN_FLOOD_READS + 1)
    ]
    assert rests == [0.0] * MIN_FLOOD_READS + [MIN_REST_SECONDS]


def test_a_rest_is_no_pause():
    """Bytes right after a pause continue the flood, for a pause of any length."""
    tempo = ReadCoalescer()
    for number in range(MIN_FLOOD_READS + 1):
        tempo.record_read(number * FAST, FEW, is_all=True)
    tempo.record_rest_end(10.0)
    assert tempo.record_read(10.0 + FAST, FEW, is_all=True)
    tempo.record_rest_end(20.0)
    assert tempo.record_read(20.0 + MAX_GAP_AFTER_REST_SECONDS * 0.9, FEW, is_all=True)
    tempo.record_rest_end(30.0)
    assert not tempo.record_read(30.0 + MAX_GAP_AFTER_REST_SECONDS * 1.1, FEW, is_all=True)


def rests_of(tempo: ReadCoalescer, sizes: list[int]) -> list[float]:
    """Return how long each rest is after which reads of these sizes come, begun by a flood."""
    rests = [
        tempo.record_read(number * FAST, FEW, is_all=True) for number in range(MIN_FLOOD_READS + 1)
    ][-1:]
    for number, size in enumerate(sizes, 1):
        tempo.record_rest_end(10.0 * number)
        rests.append(tempo.record_read(10.0 * number + FAST, size, is_all=True))
    return rests


def test_a_rest_grows_until_it_brings_enough():
    """The delay stays below the noticeable one."""
    rests = rests_of(ReadCoalescer(), [FEW] * 5)
    assert rests == [MIN_REST_SECONDS * factor for factor in (1, 2, 4, 8, 8, 8)]
    assert rests[-1] == MAX_REST_SECONDS


def test_a_rest_shrinks_when_it_brings_enough():
    """Otherwise a quick writer would stop at a full socket."""
    sizes = [FEW, FEW, FULL_READ_BYTES, FULL_READ_BYTES, FULL_READ_BYTES]
    assert rests_of(ReadCoalescer(), sizes) == [
        MIN_REST_SECONDS * factor for factor in (1, 2, 4, 2, 1, 1)
    ]


def test_a_pause_ends_long_rests():
    """Bytes after a pause begin a new flood."""
    tempo = ReadCoalescer()
    assert rests_of(tempo, [FEW] * 3)[-1] == MAX_REST_SECONDS
    tempo.record_rest_end(90.0)
    tempo.record_read(100.0, FEW, is_all=True)
    rests = [tempo.record_read(100.0 + number * FAST, FEW, is_all=True) for number in range(1, 9)]
    assert rests == [0.0] * 7 + [MIN_REST_SECONDS]


def test_a_rest_that_was_cut_short_reports_nothing():
    """It brought little, because it was cut short. So the next rest is not longer."""
    tempo = ReadCoalescer()
    assert rests_of(tempo, [FEW])[-1] == 2 * MIN_REST_SECONDS
    tempo.record_rest_end(20.0)
    tempo.record_write()
    rests = [tempo.record_read(20.0 + number * FAST, FEW, is_all=True) for number in range(1, 9)]
    assert rests == [0.0] * 7 + [2 * MIN_REST_SECONDS]


def test_who_talks_in_turns_never_waits():
    """A client of a database asks again as soon as it is answered."""
    tempo, rests = ReadCoalescer(), []
    for number in range(100):
        tempo.record_write()
        rests += [
            tempo.record_read((number + part / 4) * FAST, FEW, is_all=True) for part in range(4)
        ]
    assert not any(rests)


def test_what_fills_the_buffer_is_read_on():
    """More is there already, so nothing has to gather."""
    tempo = ReadCoalescer()
    assert not any(tempo.record_read(number * FAST, FEW, is_all=False) for number in range(100))


@given(st.lists(st.floats(min_value=MAX_FLOOD_GAP_SECONDS * 1.01, max_value=1.0), max_size=50))
def test_who_types_never_waits(pauses):
    """No number of keys makes a flood while there is a pause before each."""
    tempo, now = ReadCoalescer(), 0.0
    times = [now := now + pause for pause in pauses]
    assert all(b > a for a, b in pairwise(times))
    assert not any(tempo.record_read(time, FEW, is_all=True) for time in times)
