"""What became of the tests that carry rows, when they were run last.

Owns `results.yaml`: by test, `passed` or `failed`. Hazard: a report that says nothing of a test
leaves the last word on it, which may be of other code; `note` whole runs.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

import yaml

from tests.rows.table import HERE

Result = Literal["passed", "failed"]

FILE = HERE / "results.yaml"
_HEAD = "# What became of the tests of offload.yaml; `python -m tests.rows --results FILE`.\n"


def known() -> Mapping[str, Result]:
    """The results by test: `node/test_walkthroughs.py test_a_job_runs_on_another_cluster`."""
    return (yaml.safe_load(FILE.read_text()) if FILE.exists() else None) or {}


def note(report: Path, wanted: Collection[str]) -> None:
    """Write down what a JUnit report says of the tests that carry rows, and forget others."""
    found = {**known(), **in_report(report.read_text())}
    found = {test: result for test, result in found.items() if test in wanted}
    FILE.write_text(_HEAD + yaml.safe_dump(found, sort_keys=True, width=200))


def in_report(text: str) -> Mapping[str, Result]:
    """Return the results in a JUnit report; a test fails when any of its parameters does."""
    found: dict[str, Result] = {}
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
