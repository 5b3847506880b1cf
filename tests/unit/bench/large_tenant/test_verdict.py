"""What a run with a tenant that is too large must keep."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from bench.large_tenant.verdict import compute_ratios, find_problems, get_before
from bench.reports import tables

RUN: dict[str, Any] = {
    "idle": {"p99_ms": 40.0},
    "suspended": {"p99_ms": 50.0},
    "large": {"p99_ms": 60.0},
    "attempts": {"p99_ms": 45.0},
    "memory_after": {"peak_mib": 512},
    "memory_limit_mib": 512,
    "policies_refused": 0,
    "told": "The tenant is too large. NetworkPolicy in default uses 80 MB.",
    "recovered_seconds": 31.0,
    "has_ended": False,
}


def build_run(**changes: Any) -> dict[str, Any]:
    """Return a good run with changes, and its ratios."""
    run = {**copy.deepcopy(RUN), **changes}
    return {"ratios": compute_ratios(run), "before": get_before(run), **run}


def test_a_good_run_has_no_problem():
    assert find_problems(build_run()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"has_ended": True}, "The syncer ended"),
        ({"memory_after": {"peak_mib": 513}}, "used 513 MiB, and its limit is 512 MiB"),
        ({"policies_refused": 3}, "refused 3 policies"),
        ({"told": None}, "did not report TooLarge"),
        ({"told": "too large"}, "does not name the kind NetworkPolicy"),
        ({"recovered_seconds": None}, "was not synced again"),
        ({"large": {"p99_ms": 60.6}}, "while the tenant grew was 1.21 times before, above 1.2"),
        ({"attempts": {"p99_ms": 61.0}}, "at later attempts was 1.22 times before"),
        ({"ratios": {"large": float("nan"), "attempts": 1.0}}, "was nan times before"),
    ],
)
def test_each_thing_that_is_not_kept_is_a_sentence(changes: dict[str, Any], said: str):
    (problem,) = find_problems(build_run(**changes))
    assert said in problem


def test_before_is_the_same_load_of_a_suspended_tenant_if_it_was_measured():
    assert compute_ratios(RUN) == {"large": 1.2, "attempts": 0.9, "large_to_idle": 1.5}
    endless = {key: value for key, value in RUN.items() if key != "suspended"}
    assert compute_ratios(endless) == {"large": 1.5, "attempts": 1.12}


def test_its_report_is_a_table_of_the_page(tmp_path: Path):
    noise = {"median_ms": 30.0, "spread": 0.0, "load_1min": 0.5}
    bad = build_run(large={"p99_ms": 75.0}, policies_refused=1)
    for name in ("large-tenant", "large-tenant-pages", "large-tenant-watch"):
        report = {"noise": noise, "runs": {"large": [bad]}}
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    text = tables.text(tmp_path)
    assert (
        text.count("| its p99 while the other tenant grows, to before | 1.50 | 1.2: missed |") == 3
    )
    assert text.count("| policies that the API server refused | 1.00 | 0: missed |") == 3
    assert text.count("| syncer, highest RSS MiB | 512 | 512: kept |") == 3
