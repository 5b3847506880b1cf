"""Results of cases: one JSON line per case, appended as it ends, so that a run can continue.

Hazard: a run that is killed may leave half a line at the end. Such a line is ignored, and the next
one begins on a line of its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED, LOST = "passed", "failed", "skipped", "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case: `state` is passed, failed, skipped, or lost (no word of it from the suite)."""

    case: str
    state: str
    seconds: float
    message: str = ""
    """The failure in the suite's words, its first 2,000 characters."""
    where: str = ""
    """File and line of Kubernetes where it failed."""
    commit: str = ""
    """Commit of the tested code. Empty if it was not recorded."""
    is_again: bool = False
    """Whether it was tried once more after it had not passed."""


class ResultStore:
    """The results of one side in one file. The last line of a case counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def read(self) -> dict[str, CaseResult]:
        """The results so far, by the case's name."""
        text = self._path.read_text() if self._path.exists() else ""
        found = {}
        for line in text.split("\n"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            found[row["case"]] = CaseResult(**row)
        return found

    def add(self, results: Iterable[CaseResult]) -> None:
        """Append results."""
        lines = "".join(f"\n{json.dumps(asdict(result))}" for result in results)
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(lines)

    def forget(self, names: Iterable[str]) -> None:
        """Forget the results of these cases."""
        gone = set(names)
        kept = [result for name, result in self.read().items() if name not in gone]
        scratch = self._path.with_suffix(".new")
        scratch.unlink(missing_ok=True)
        ResultStore(scratch).add(kept)
        scratch.rename(self._path)


def from_report(report: Any, names: Iterable[str]) -> tuple[dict[str, CaseResult], dict[str, str]]:
    """The results of the named cases in a report of Ginkgo's, and what each failed one printed.

    A case that was to run and did not (because what comes before all cases failed) is lost.
    """
    wanted = set(names)
    found: dict[str, CaseResult] = {}
    printed: dict[str, str] = {}
    ahead = ""
    for suite in report:
        for spec in suite.get("SpecReports") or ():
            name = full_name(spec)
            if name not in wanted:
                if spec.get("LeafNodeType") != "It" and spec.get("Failure"):
                    ahead = ahead or _message(spec["Failure"])
                continue
            found[name] = _result(name, spec)
            if found[name].state != PASSED:
                printed[name] = "\n".join(
                    filter(None, (_long(spec.get("Failure") or {}), _output(spec)))
                )
    for name, result in list(found.items()):
        if result.state == LOST and ahead:
            found[name] = CaseResult(case=name, state=LOST, seconds=0.0, message=ahead)
    return found, printed


def full_name(spec: Mapping[str, Any]) -> str:
    """The name of a case as the suite lists it."""
    texts = [*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText") or ""]
    return " ".join(" ".join(filter(None, texts)).split())


def _result(name: str, spec: Mapping[str, Any]) -> CaseResult:
    failure = spec.get("Failure") or {}
    state = spec["State"]
    if state == SKIPPED and not spec.get("NumAttempts"):
        state = LOST
    elif state not in (PASSED, SKIPPED):
        state = FAILED  # also panicked, timedout, interrupted and aborted, see the message
    location = failure.get("FailureNodeLocation") or failure.get("Location") or {}
    place = failure.get("Location") or location
    file = str(place.get("FileName", "")).rpartition("k8s.io/kubernetes")[2]
    return CaseResult(
        case=name,
        state=state,
        seconds=round(spec.get("RunTime", 0) / 1e9, 1),
        message=_message(failure),
        where=f"{file.partition('/')[2]}:{place['LineNumber']}" if file else "",
    )


def _message(failure: Mapping[str, Any]) -> str:
    return str(failure.get("Message", ""))[:2000]


def _long(failure: Mapping[str, Any]) -> str:
    place = failure.get("Location") or {}
    return f"{failure.get('Message', '')}\n{place.get('FullStackTrace', '')}"


def _output(spec: Mapping[str, Any]) -> str:
    return str(spec.get("CapturedGinkgoWriterOutput") or spec.get("CapturedStdOutErr") or "")
