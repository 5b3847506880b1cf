"""Which ways run, and to which they are compared."""

import os
import subprocess
import sys

import pytest

from bench.lifecycle import paths
from bench.programs import process_usage
from bench.reports import report


def test_a_way_that_is_named_twice_runs_twice_under_names_of_its_own():
    assert paths.named("direct,direct,syncer") == [
        ("direct", "direct"),
        ("direct 2", "direct"),
        ("syncer", "syncer"),
    ]


def test_there_are_no_other_ways():
    with pytest.raises(ValueError, match="there is no way 'detour'"):
        paths.named("direct,detour")


@pytest.mark.parametrize(
    ("way", "bases"),
    [
        ("direct", ()),
        ("replay", ("direct",)),
        ("syncer", ("direct", "replay")),
        ("direct 2", ("direct",)),
        ("syncer 2", ("syncer",)),
    ],
)
def test_one_that_runs_again_is_compared_to_itself_alone(way: str, bases: tuple[str, ...]):
    assert report.bases(way) == bases


def test_an_ended_child_is_ours_as_long_as_it_ran_and_after():
    words = "import sys, time\nwhile time.process_time() < 0.2: pass\nprint(1, flush=True)\n"
    before = process_usage.own_seconds([])
    child = subprocess.Popen(
        [sys.executable, "-c", f"{words}sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert process_usage.own_seconds([child.pid]) - before >= 0.15
    child.communicate()
    assert process_usage.own_seconds([]) - before >= 0.15
    assert process_usage.own_seconds([os.getpid()]) > process_usage.own_seconds([])
