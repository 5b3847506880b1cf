"""The report: status, condition, exit codes, table and document."""

from __future__ import annotations

import json

import pytest

from kubectl_vc.audit import report as reports
from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.report import (
    AuditResult,
    HoleFoundError,
    IsolationReport,
    UnprovedError,
)

FINISHED = "2026-11-28T01:02:03Z"


def build(*verdicts: Verdict) -> IsolationReport:
    results = [
        AuditResult(
            probe=f"probe-{number}",
            source="pod",
            target="decoy's pod 10.0.0.1:8080",
            expected="closed",
            seen="timeout",
            control="open from node",
            verdict=verdict,
        )
        for number, verdict in enumerate(verdicts)
    ]
    return IsolationReport(
        tenant="default/web",
        decoy="default/shop",
        super_version="v1.36.4",
        image="busybox",
        started="2026-11-28T01:00:00Z",
        finished=FINISHED,
        results=results,
    )


PASSED, FAILED, ABSENT, UNKNOWN = Verdict


@pytest.mark.parametrize(
    ("verdicts", "status", "reason", "problem", "code"),
    [
        ([PASSED, ABSENT], "True", "Proved", None, 0),
        ([PASSED, FAILED, UNKNOWN], "False", "HolesFound", HoleFoundError, 3),
        ([PASSED, UNKNOWN], "Unknown", "Incomplete", UnprovedError, 4),
        ([ABSENT], "Unknown", "Incomplete", UnprovedError, 4),
        ([], "Unknown", "Incomplete", UnprovedError, 4),
    ],
)
def test_status_reason_and_exit_code(verdicts, status, reason, problem, code):
    report = build(*verdicts)
    condition = reports.build_condition(report, {"metadata": {"generation": 7}})
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "IsolationProved",
        status,
        reason,
    )
    assert (condition["lastTransitionTime"], condition["observedGeneration"]) == (FINISHED, 7)
    if problem is None:
        reports.raise_unless_proved(report)
    else:
        with pytest.raises(problem) as raised:
            reports.raise_unless_proved(report)
        assert raised.value.exit_code == code


def test_the_condition_has_the_date_and_keeps_its_transition_time():
    before = {
        "type": "IsolationProved",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {"metadata": {}, "status": {"conditions": [before]}}
    condition = reports.build_condition(build(PASSED), body)
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert (
        condition["message"] == f"Audited at {FINISHED}: 1 passed, 0 failed, 0 absent, 0 unknown."
    )


def test_the_condition_names_the_first_holes_only():
    message = reports.build_condition(build(*[FAILED] * 7), {"metadata": {}})["message"]
    assert "probe-4 and 2 more" in message
    assert "probe-5" not in message


def test_the_table_has_each_row_and_the_counts():
    table = reports.build_table(build(PASSED, FAILED))
    assert "PROBE" in table
    assert "probe-1" in table
    assert f"audited at {FINISHED}: 1 passed, 1 failed, 0 absent, 0 unknown" in table


def test_the_document_is_json_with_all_results():
    document = json.loads(json.dumps(reports.build_document(build(PASSED, FAILED))))
    assert document["kind"] == "IsolationReport"
    assert document["IsolationProved"] == "False"
    assert document["summary"] == {"passed": 1, "failed": 1, "absent": 0, "unknown": 0}
    assert [each["verdict"] for each in document["results"]] == ["passed", "failed"]
    assert (document["tenant"], document["finished"]) == ("default/web", FINISHED)
