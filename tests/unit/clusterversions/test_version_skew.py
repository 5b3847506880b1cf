"""Downgrades and skipped minors are refused with a reason."""

import pytest

from clusterversions import version_skew


@pytest.mark.parametrize(
    ("running", "wanted", "words"),
    [
        ("", "1.36", None),  # it never ran
        ("v1.36.4", "1.36", None),
        ("v1.36.4", "1.37", None),
        ("v1.37.2", "1.36", "A downgrade loses objects. Use a ClusterVersion of 1.37"),
        ("v1.36.4", "1.36.2", None),  # an older patch release reads the same objects
        ("v1.35.1", "1.36", None),
        ("v1.36.4-rc.1+abc", "1.37", None),
        ("v1.36.4", "1.35", "A downgrade loses objects. Use a ClusterVersion of 1.36"),
        ("v1.36.4", "1.34.9", "is older than v1.36.4"),
        ("v1.35.1", "1.37", "Upgrade one minor at a time, first to 1.36."),
        ("v1.9.0", "1.10", None),  # numbers, not texts
        ("v1.10.0", "1.9", "is older"),
        ("unknown", "1.36", None),
        ("v1.36.4", "", None),
    ],
)
def test_one_minor_up_at_a_time_and_never_down(running, wanted, words):
    problem = version_skew.find_skew_problem(running, wanted)
    assert problem is None if words is None else words in (problem or "")
