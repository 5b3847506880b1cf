"""A pytest plugin that runs one part of five of the tests, and records how long test files take.

`--shard K` keeps the test files of part K (0 to 4). Files stay whole, because the fixtures of a
module are dear. `--shard-tests` splits by test instead, for files without such fixtures. The parts
are made from the seconds in `tests/durations.json` alone, so that each run with the same selection
makes the same five. `--record-durations` writes what the files of this run took.

Hazard: the parts must together be all that is selected. A random choice, or a choice that depends
on what an earlier part did, would leave tests out that no landing ever runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from statistics import median

import pytest

COUNT = 5
"""Number of parts, hence of landings until everything has run once."""
DURATIONS = Path(__file__).parents[1] / "durations.json"
USUAL, THOROUGH, SLOW = "usual", "thorough", "slow"
_ALONE = ("session", "package")
"""Scopes of fixtures whose set-up is no file's own: whichever test comes first pays for it."""

Durations = dict[str, dict[str, float]]
"""Seconds by test file, relative to the repository, and by the marker of the tests."""


def read(path: Path = DURATIONS) -> Durations:
    """Return the recorded seconds. Empty without a record."""
    found: Durations = json.loads(path.read_text()) if path.is_file() else {}
    return found


def write(durations: Durations, path: Path = DURATIONS) -> None:
    """Write the record, one file a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(durations[name])}" for name in sorted(durations)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def seconds(name: str, stages: Iterable[str], durations: Durations) -> float:
    """Return the duration of a file's tests in these stages. The median file's time if unknown."""
    known = durations.get(name, {})
    return sum(
        known[stage] if stage in known else _median(stage, durations) for stage in sorted(stages)
    )


def _median(stage: str, durations: Durations) -> float:
    return median([each[stage] for each in durations.values() if stage in each] or [1.0])


def split(
    tests: Iterable[tuple[str, str]], durations: Durations, *, by_test: bool = False
) -> dict[str, int]:
    """Return the part of each test, by its id. `tests` are ids with their stages."""
    in_file: dict[str, dict[str, str]] = {}
    for nodeid, stage in tests:
        in_file.setdefault(file_of(nodeid), {})[nodeid] = stage
    weights: dict[str, float] = {}
    for name, found in in_file.items():
        whole = seconds(name, set(found.values()), durations)
        weights |= {each: whole / len(found) for each in found} if by_test else {name: whole}
    part = parts(weights)
    return {
        nodeid: part[nodeid if by_test else name]
        for name, found in in_file.items()
        for nodeid in found
    }


def parts(weights: Mapping[str, float], count: int = COUNT) -> dict[str, int]:
    """Return the part of each unit: the longest first, each to the part with the least so far."""
    loads = [0.0] * count
    found = {}
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        part = min(range(count), key=lambda part: (loads[part], part))
        found[name] = part
        loads[part] += weights[name]
    return found


def stage_of(item: pytest.Item) -> str:
    """Return which target of the Makefile runs a test."""
    for stage in (SLOW, THOROUGH):
        if item.get_closest_marker(stage) is not None:
            return stage
    return USUAL


def file_of(nodeid: str) -> str:
    """Return the test file of a test."""
    return nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define the options."""
    group = parser.getgroup("shards")
    group.addoption("--shard", type=int, choices=range(COUNT), help="the part of five to run")
    group.addoption("--shard-tests", action="store_true", help="split by test, not by file")
    group.addoption("--record-durations", action="store_true", help="write tests/durations.json")


def pytest_configure(config: pytest.Config) -> None:
    """Register what collects times."""
    config.pluginmanager.register(_SharedSetups(), "shared-setups")
    if config.getoption("record_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record(), "durations-record")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the wanted part, after the markers have chosen."""
    wanted = config.getoption("shard")
    if wanted is None:
        return
    tests = [(item.nodeid, stage_of(item)) for item in items]
    part = split(tests, read(), by_test=config.getoption("shard_tests"))
    left = [item for item in items if part[item.nodeid] != wanted]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if part[item.nodeid] == wanted]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a part succeed that has no test: a folder may have fewer files than there are parts."""
    if (
        session.config.getoption("shard") is not None
        and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    ):
        session.exitstatus = pytest.ExitCode.OK


class _SharedSetups:
    """Takes the set-up of shared fixtures out of the time of the test that came first."""

    def __init__(self) -> None:
        self._seconds = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None]:
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            if fixturedef.scope in _ALONE:
                self._seconds += time.monotonic() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        # Further attributes of a report come along from the worker that ran the test.
        vars(report).update(stage=stage_of(item), shared_seconds=self._seconds)
        self._seconds = 0.0
        return report


class _Record:
    """Sums up the times of files, and writes them at the end."""

    def __init__(self) -> None:
        self._durations: Durations = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        own = self._durations.setdefault(file_of(report.nodeid), {})
        took = max(0.0, report.duration - getattr(report, "shared_seconds", 0.0))
        stage = getattr(report, "stage", USUAL)
        own[stage] = own.get(stage, 0.0) + took

    def pytest_sessionfinish(self) -> None:
        before = {name: row for name, row in read().items() if Path(name).is_file()}
        for name, row in self._durations.items():
            rounded = {stage: round(took, 1) for stage, took in row.items()}
            before[name] = dict(sorted({**before.get(name, {}), **rounded}.items()))
        write(before)
