"""States, ends of certificates and work in progress of a tenant."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.ui import tenant_rows
from tenancy import wellknown

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def body(conditions: tuple[dict[str, Any], ...] = (), **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "d",
            "name": "web",
            "uid": "u",
            "creationTimestamp": "2026-05-31T23:00:00Z",
        },
        "spec": {"clusterVersionName": "v1.36"},
        "status": {"conditions": list(conditions), **status},
    }


def certificates(*days: float) -> dict[str, Any]:
    rows = [
        {
            "name": f"c{number}",
            "kind": "certificate",
            "issued": NOW.isoformat(),
            "expires": (NOW + timedelta(days=each)).isoformat(),
            "renewal": None,
        }
        for number, each in enumerate(days)
    ]
    return {
        "metadata": {"namespace": "root", "name": wellknown.CERTIFICATES},
        "data": {wellknown.CERTIFICATES_KEY: json.dumps(rows)},
    }


@pytest.mark.parametrize(
    ("table", "text", "grade"),
    [
        (certificates(90, 60.5), "60d", "good"),
        (certificates(13), "13d", "bad"),
        (certificates(1.5), "36h", "bad"),
        (certificates(-1), "expired", "bad"),
        (certificates(), "none", "busy"),
        ({"metadata": {"namespace": "r", "name": "c"}, "data": {}}, "unreadable", "bad"),
        (None, "unknown", "busy"),
    ],
)
def test_the_first_end_of_the_certificates(table: Any, text: str, grade: str):
    found = tenant_rows.build_tenant_row(body(), table, NOW).certificates_end
    assert (found.text, found.grade) == (text, grade)


@pytest.mark.parametrize(
    ("kind", "status", "grade"),
    [
        ("Ready", "True", "good"),
        ("Ready", "False", "bad"),
        ("Ready", "Unknown", "busy"),
        ("DeletesHeld", "True", "bad"),
        ("DeletesHeld", "False", "good"),
        ("StoreFilling", "True", "bad"),
    ],
)
def test_the_grade_of_a_condition_knows_what_is_good(kind: str, status: str, grade: str):
    (row,) = tenant_rows.build_condition_rows(body(({"type": kind, "status": status},)), NOW)
    assert row.status == tenant_rows.State(status, grade)
    assert row.age == "unknown"


def test_a_row_of_an_object_without_a_status():
    bare = {"metadata": {"namespace": "d", "name": "web"}}
    row = tenant_rows.build_tenant_row(bare, None, NOW)
    assert (row.phase.text, row.ready.text, row.age) == ("Pending", "Unknown", "unknown")
    gone = {"metadata": {"namespace": "d", "name": "web", "deletionTimestamp": "x"}}
    assert tenant_rows.build_tenant_row(gone, None, NOW).phase.text == "Terminating"


def test_the_problem_is_the_message_of_ready_in_one_line():
    ready = {"type": "Ready", "status": "False", "message": "no\n  node"}
    assert tenant_rows.build_tenant_row(body((ready,)), None, NOW).problem == "no node"


def test_operations_in_progress():
    behind = {
        "type": wellknown.CONTROL_PLANE_UP_TO_DATE,
        "status": "False",
        "reason": "WaitingForRollout",
        "message": "2 are before it",
    }
    version = {"status": {"rollout": {"tenants": 9, "waiting": 3, "slots": [{"uid": "a"}]}}}
    snapshot = {"metadata": {"name": "s"}, "status": {"phase": "Failed"}}
    table = {"data": {wellknown.ROTATIONS_KEY: '[{"authority":"etcd","stage":"trust-both"}]'}}
    restore = {"request": "s@now", "phase": "Restoring", "message": "m"}
    found = tenant_rows.build_operations(
        body((behind,), restore=restore), version, [snapshot], table, NOW
    )
    assert [(each.what, each.state.text, each.state.grade) for each in found] == [
        ("rollout of v1.36", "WaitingForRollout", "busy"),
        ("wave of v1.36", "InProgress", "busy"),
        ("rotation of etcd", "trust-both", "busy"),
        ("snapshot s", "Failed", "bad"),
        ("restore of s", "Restoring", "busy"),
    ]
    scheduled = body()
    scheduled["metadata"]["annotations"] = {wellknown.DELETE_AFTER: "2026-06-02T00:00:00Z"}
    broken = {"data": {wellknown.ROTATIONS_KEY: "[1"}}
    (only,) = tenant_rows.build_operations(scheduled, None, [], broken, NOW)
    assert (only.what, only.detail) == ("deletion", "after 2026-06-02T00:00:00Z")


def test_certificates_that_end_first_are_first():
    rows = tenant_rows.build_certificate_rows(certificates(9, 3), NOW)
    assert [(row.name, row.renewal) for row in rows] == [("c1", "never"), ("c0", "never")]
    with pytest.raises(CliError):
        tenant_rows.build_certificate_rows({"metadata": {"namespace": "r", "name": "c"}}, NOW)
