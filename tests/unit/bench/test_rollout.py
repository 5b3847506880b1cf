"""The figures of a rollout, and what it must not do."""

import pytest

from bench.rollout import NEW, OLD, RolloutLog, find_faults, table

GOOD = {
    "tenants": ["a", "b", "c"],
    "broken": "b",
    "max_unavailable": 2,
    "most_at_once": 2,
    "stopped": "DeadlineExceeded",
    "changed_at_stop": ["a"],
    "changed_while_stopped": [],
    "ended": "UpToDate",
    "changed_s": {"a": 1.0, "b": 2.0, "c": 3.0},
    "away_s": {"a": 4.0},
    "repaired_s": 120.0,
    "all_s": 150.0,
    "memory_before_mib": [300.0],
    "memory_after_mib": [310.0],
    "cores": 2,
    "noise": {"load_1min": 0.1},
}


def test_a_log_has_the_first_time_of_the_new_minor_and_the_longest_silence():
    log = RolloutLog()
    looks = [(1, OLD, 0), (2, None, 1), (5, None, 2), (7, NEW, 1), (8, None, 0), (9, NEW, 0)]
    for now, version, slots in looks:
        log.add(now, {"a": version}, slots)

    assert (log.changed, log.away, log.most_at_once) == ({"a": 7}, {"a": 5}, 2)


def test_a_good_rollout_has_no_fault():
    assert find_faults(GOOD) == []
    assert "fault" not in table(GOOD)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"most_at_once": 3}, "3 tenants changed at once"),
        ({"stopped": "Progressing"}, "did not stop: Progressing"),
        ({"changed_at_stop": ["b"]}, "b was changed"),
        ({"changed_while_stopped": ["c"]}, "these changed: ['c']"),
        ({"ended": "Progressing"}, "did not end"),
        ({"changed_s": {"a": 1.0, "b": 2.0}}, "still of 1.35: c"),
    ],
)
def test_each_thing_that_a_rollout_must_not_do_is_a_fault(changed, fault):
    (found,) = find_faults({**GOOD, **changed})

    assert fault in found
