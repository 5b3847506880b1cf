"""Results of the last run of the tests that show rows.

Owns `results.yaml`: commit and date of the recording, and by test `passed` or `failed`. Hazard: a
report without a test keeps its old result, which may be of other code. `note` must get whole runs.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from tools.rows.table import HERE

RowResult = Literal["passed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """The last recorded results."""

    commit: str = ""
    """Commit of the working tree when the reports were recorded."""
    date: str = ""
    """Date of the newest run."""
    tests: Mapping[str, RowResult] = field(default_factory=dict)
    """By test: `node/test_walkthroughs.py test_a_job_runs_on_another_cluster`."""


FILE = HERE / "results.yaml"
_HEAD = "# Results of the tests of offload.yaml, from `python -m tools.rows --results FILE`.\n"


def known() -> RecordedRun:
    """Return what is written down."""
    found = (yaml.safe_load(FILE.read_text()) if FILE.exists() else None) or {}
    return RecordedRun(**found)


def note(reports: Sequence[Path], wanted: Collection[str], commit: str) -> None:
    """Record the results in JUnit reports for the tests that show rows, and drop others."""
    before = known()
    found, dates = {**before.tests}, set[str]()
    for report in reports:
        text = report.read_text()
        found |= in_report(text)
        dates |= set(_dates(text))
    kept = {test: result for test, result in found.items() if test in wanted}
    body = {"commit": commit, "date": max(dates, default=before.date), "tests": kept}
    FILE.write_text(_HEAD + yaml.safe_dump(body, sort_keys=True, width=200))


def _dates(text: str) -> Iterator[str]:
    root = ET.fromstring(text)  # noqa: S314 - our own test run wrote it
    for suite in root.iter("testsuite"):
        yield suite.get("timestamp", "").partition("T")[0]


def in_report(text: str) -> Mapping[str, RowResult]:
    """Return the results in a JUnit report. A test fails if any of its parameters does."""
    found: dict[str, RowResult] = {}
    for module, name, is_well in each_case(text):
        test = f"{module} {name.partition('[')[0]}"
        found[test] = "passed" if is_well and found.get(test) != "failed" else "failed"
    return found


def each_case(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield module, name with its parameters, and whether it was well, of all that were run."""
    root = ET.fromstring(text)  # noqa: S314 - our own test run wrote it
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        module = case.get("classname", "").removeprefix("tests.").replace(".", "/")
        is_well = case.find("failure") is None and case.find("error") is None
        yield f"{module}.py", case.get("name", ""), is_well
