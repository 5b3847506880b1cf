"""Report of an audit: table, document, condition `IsolationProved` and exit code. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kubectl_vc.audit.decision import Verdict
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliError
from tenancy import conditions
from tenancy.conditions import ConditionStatus

CONDITION = "IsolationProved"
"""Condition of a VirtualCluster: the result of its last audit. Only this command writes it."""
FIELD_MANAGER = "kubectl-vc-audit"
_SHOWN_HOLES = 5
"""Longest list of holes in the condition's message. The report has all."""


class HoleFoundError(CliError):
    """The audit found a hole. The exit code is 3."""

    exit_code = 3


class UnprovedError(CliError):
    """The audit found no hole, but some probes have no verdict. The exit code is 4."""

    exit_code = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """One row of the report."""

    probe: str
    source: str
    target: str
    """The target, with its address if it has one."""
    expected: str
    seen: str
    control: str
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationReport:
    """The result of one audit. Times are RFC 3339."""

    tenant: str
    """Namespace and name of the VirtualCluster."""
    decoy: str
    super_version: str
    image: str
    started: str
    finished: str
    results: Sequence[AuditResult]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Number of results by verdict, all verdicts included."""
        found = Counter(each.verdict for each in self.results)
        return {verdict: found[verdict] for verdict in Verdict}

    @property
    def holes(self) -> list[str]:
        """The probes that failed, each once."""
        failed = (each.probe for each in self.results if each.verdict is Verdict.FAILED)
        return list(dict.fromkeys(failed))

    @property
    def status(self) -> ConditionStatus:
        """Status of the condition. It is True only if no probe failed and none is unknown."""
        if self.holes:
            return "False"
        counts = self.counts
        return "Unknown" if counts[Verdict.UNKNOWN] or not counts[Verdict.PASSED] else "True"

    @property
    def summary(self) -> str:
        """The counts in words."""
        counted = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())
        return f"isolation of {self.tenant}, audited at {self.finished}: {counted}"


_REASONS: Mapping[ConditionStatus, str] = {
    "True": "Proved",
    "False": "HolesFound",
    "Unknown": "Incomplete",
}


def build_table(report: IsolationReport) -> str:
    """Return the report as a table with a summary line."""
    heads = ("probe", "from", "to", "expected", "seen", "control", "verdict", "note")
    rows = [
        (
            each.probe,
            each.source,
            each.target,
            each.expected,
            each.seen,
            each.control,
            each.verdict,
            each.note,
        )
        for each in report.results
    ]
    return printers.format_table(heads, rows) + f"\n{report.summary}\n"


def build_document(report: IsolationReport) -> dict[str, Any]:
    """Return the report as a JSON object."""
    return {
        "kind": "IsolationReport",
        **{key: value for key, value in asdict(report).items() if key != "results"},
        CONDITION: report.status,
        "summary": {str(verdict): count for verdict, count in report.counts.items()},
        "results": [asdict(each) for each in report.results],
    }


def build_condition(report: IsolationReport, body: Mapping[str, Any]) -> conditions.Condition:
    """Return the condition for the status of the VirtualCluster `body`."""
    counted = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items())
    message = f"Audited at {report.finished}: {counted}."
    if holes := report.holes:
        more = f" and {len(holes) - _SHOWN_HOLES} more" if len(holes) > _SHOWN_HOLES else ""
        message += f" Holes: {', '.join(holes[:_SHOWN_HOLES])}{more}."
    fresh = conditions.build_condition(
        CONDITION,
        report.status,
        _REASONS[report.status],
        message,
        now=report.finished,
        generation=int(body["metadata"].get("generation") or 0),
    )
    before = (body.get("status") or {}).get("conditions")
    return conditions.carry_transition_times(before, [fresh])[0]


def raise_unless_proved(report: IsolationReport) -> None:
    """Raise HoleFoundError or UnprovedError unless the isolation is proved."""
    if report.status == "False":
        raise HoleFoundError(
            f"{report.summary}. Holes: {', '.join(report.holes)}. See the rows with the verdict"
            " failed."
        )
    if report.status == "Unknown":
        raise UnprovedError(
            f"{report.summary}. See the notes of the rows with the verdict unknown, then run the"
            " command again."
        )
