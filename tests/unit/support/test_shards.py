"""Five parts of the tests are together all of them, each file in one part, about equally long."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import shards

TESTS = Path(__file__).parents[2]
FILES = sorted(
    str(path.relative_to(TESTS.parent))
    for folder in ("chart", "integration", "node", "properties")
    for path in (TESTS / folder).rglob("test_*.py")
)
STAGES = st.sampled_from([shards.USUAL, shards.THOROUGH, shards.SLOW])
IDS = st.builds("{}::test_{}".format, st.sampled_from("abcdefghijkl"), st.integers(0, 3))


def kept(tests, durations, *, by_test=False):
    """Return the tests of each part."""
    found = shards.split(tests, durations, by_test=by_test)
    return [{test for test, part in found.items() if part == each} for each in range(shards.COUNT)]


@given(tests=st.dictionaries(IDS, STAGES), by_test=st.booleans(), seed=st.randoms())
def test_the_parts_are_together_all_tests_whatever_their_order(tests, by_test, seed):
    durations = {"a": {shards.USUAL: 9.0}, "b": {shards.THOROUGH: 2.0}}
    found = kept(tests.items(), durations, by_test=by_test)
    assert set().union(*found) == set(tests)
    assert sum(map(len, found)) == len(tests)
    shuffled = list(tests.items())
    seed.shuffle(shuffled)
    assert kept(shuffled, durations, by_test=by_test) == found


@given(tests=st.dictionaries(IDS, STAGES))
def test_a_file_stays_whole(tests):
    for part in kept(tests.items(), {}):
        others = set(tests) - part
        assert not {shards.file_of(test) for test in part} & set(map(shards.file_of, others))


def test_the_files_that_there_are_make_five_parts_of_about_one_length():
    durations = shards.read()
    weights = {name: shards.seconds(name, [shards.USUAL], durations) for name in FILES}
    found = shards.parts(weights)
    assert set(found) == set(FILES)
    loads = [sum(weights[name] for name in FILES if found[name] == part) for part in range(5)]
    assert max(loads) - min(loads) <= max(weights.values())


def test_a_file_without_a_record_counts_as_the_median():
    durations = {name: {shards.USUAL: took} for name, took in (("a", 1.0), ("b", 5.0), ("c", 99.0))}
    assert shards.seconds("new", [shards.USUAL], durations) == 5.0
    assert shards.seconds("a", [shards.USUAL], durations) == 1.0
    assert shards.seconds("new", [shards.USUAL], {}) == 1.0


def test_a_record_is_read_as_it_was_written(tmp_path):
    durations = {"b": {shards.USUAL: 1.5}, "a": {shards.THOROUGH: 2.0, shards.USUAL: 0.0}}
    shards.write(durations, tmp_path / "durations.json")
    assert shards.read(tmp_path / "durations.json") == durations
    assert shards.read(tmp_path / "none") == {}


@pytest.mark.parametrize("name", ["tests/integration/a.py::test_b[c::d]", "tests/integration/a.py"])
def test_the_file_of_a_test(name):
    assert shards.file_of(name) == "tests/integration/a.py"
