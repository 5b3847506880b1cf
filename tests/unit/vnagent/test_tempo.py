"""When bytes are let gather: in floods alone."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vnagent.tempo import QUICK_READS, QUICK_SECONDS, Tempo

FAST, SLOW = QUICK_SECONDS / 2, QUICK_SECONDS * 2


def test_a_flood_rests():
    """From the ninth read on that follows the one before without a pause."""
    tempo = Tempo()
    rests = [tempo.read(number * FAST, is_all=True) for number in range(QUICK_READS + 3)]
    assert rests == [False] * QUICK_READS + [True] * 3


def test_a_pause_ends_a_flood():
    """Then as many reads are needed as at first."""
    tempo = Tempo()
    for number in range(QUICK_READS + 1):
        tempo.read(number * FAST, is_all=True)
    start = QUICK_READS * FAST + SLOW
    rests = [tempo.read(start + number * FAST, is_all=True) for number in range(QUICK_READS + 1)]
    assert rests == [False] * QUICK_READS + [True]


def test_a_rest_is_no_pause():
    """What comes right after it goes on with the flood, however long the rest was."""
    tempo = Tempo()
    for number in range(QUICK_READS + 1):
        tempo.read(number * FAST, is_all=True)
    tempo.rested(10.0)
    assert tempo.read(10.0 + FAST, is_all=True)
    tempo.rested(20.0)
    assert not tempo.read(20.0 + SLOW, is_all=True)


def test_who_talks_in_turns_never_waits():
    """A client of a database asks again as soon as it is answered."""
    tempo, rests = Tempo(), []
    for number in range(100):
        tempo.spoke()
        rests += [tempo.read((number + part / 4) * FAST, is_all=True) for part in range(4)]
    assert not any(rests)


def test_what_fills_the_buffer_is_read_on():
    """More is there already, so nothing has to gather."""
    tempo = Tempo()
    assert not any(tempo.read(number * FAST, is_all=False) for number in range(100))


@given(st.lists(st.floats(min_value=QUICK_SECONDS * 1.01, max_value=1.0), max_size=50))
def test_who_types_never_waits(pauses):
    """No number of keys makes a flood while there is a pause before each."""
    tempo, now = Tempo(), 0.0
    times = [now := now + pause for pause in pauses]
    assert all(b > a for a, b in pairwise(times))
    assert not any(tempo.read(time, is_all=True) for time in times)
