"""The program of the suite: its lists of cases and images, and one run over a few cases.

Hazard: it starts children of its own (kubectl). It must have a process group of its own, otherwise
they outlive it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.conformance.cases import ConformanceCase, focus, parse
from tools.conformance.results import LOST, CaseResult, from_report
from tools.testbed import versions
from tools.testbed.artifacts import binaries
from tools.testbed.commands import TIED, run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

_CASE_SECONDS = 900
"""Limit of one case: the longest waits for 10 min, and some more."""
_GRACE_SECONDS = 120
"""Additional time for the suite to clean up and write its report."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """Result of a run over a few cases: results, and the output of each case that did not pass."""

    results: Mapping[str, CaseResult]
    printed: Mapping[str, str]


def build(minor: str, progress: StepPrinter) -> None:
    """Build the programs of a minor's suite and of its tenants. The first time takes 6 min.

    Raises TestbedError if the testbed has no suite of this minor.
    """
    module = versions.load().minor(minor).suite
    if not module:
        known = ", ".join(each.minor for each in versions.load().suites)
        raise TestbedError(f"the testbed has no conformance suite of {minor}. It has {known}")
    programs = binaries.programs([module, "coredns", "etcd"])
    servers = [binaries.program(name, minor) for name in binaries.TENANT]
    tools = [binaries.program(name) for name in ("pause", "kubectl")]
    binaries.build([*programs, *servers, *tools], progress)


def cases(minor: str) -> list[ConformanceCase]:
    """All conformance cases of a minor's suite."""
    return parse(run([str(binaries.path("e2e.test", minor)), "--list-conformance-tests"]))


def images(minor: str) -> list[str]:
    """The full names of all images that a minor's suite knows, conformance or not."""
    return run([str(binaries.path("e2e.test", minor)), "--list-images"]).split()


def execute(
    batch: Sequence[ConformanceCase],
    minor: str,
    kubeconfig: Path,
    environment: Mapping[str, str],
) -> BatchOutcome:
    """Run a few cases one after the other. Every one of them has a result afterwards."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        folder = Path(name)
        report = folder / "report.json"
        output = folder / "output"
        limit = _CASE_SECONDS * len(batch)
        command = [
            str(binaries.path("e2e.test", minor)),
            f"--kubeconfig={kubeconfig}",
            f"--kubectl-path={binaries.path('kubectl')}",
            "--provider=skeleton",
            f"--e2e-output-dir={folder}",
            f"--ginkgo.focus={focus(batch)}",
            f"--ginkgo.json-report={report}",
            f"--ginkgo.timeout={limit}s",
            "--ginkgo.succinct",
            "--ginkgo.no-color",
            "--ginkgo.silence-skips",
        ]
        with (
            output.open("wb") as sink,
            _group(command, environment, sink.fileno()) as process,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            process.wait(limit + _GRACE_SECONDS)
        return _outcome(batch, report, output)


def _outcome(batch: Sequence[ConformanceCase], report: Path, output: Path) -> BatchOutcome:
    names = [case.name for case in batch]
    found: dict[str, CaseResult] = {}
    printed: dict[str, str] = {}
    with contextlib.suppress(FileNotFoundError, ValueError):
        found, printed = from_report(json.loads(report.read_bytes()), names)
    tail = output.read_text(errors="replace")[-4000:]
    for name in names:
        if name not in found:
            found[name] = CaseResult(case=name, state=LOST, seconds=0.0, message=tail[-2000:])
        if found[name].state == LOST:
            printed[name] = f"{printed.get(name, '')}\n{tail}"
    return BatchOutcome(found, printed)


@contextlib.contextmanager
def _group(
    command: Sequence[str], environment: Mapping[str, str], sink: int
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*TIED, *command],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=sink,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
