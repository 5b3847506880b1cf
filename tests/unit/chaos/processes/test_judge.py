"""A delete below is right when its tenant had asked for it before, and wrong in any other case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenancy import ownership
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, PODS, SERVICES
from tests.chaos.processes.judge import AuditLogTail, DrillChecker
from tests.chaos.processes.sides import DrillTenant

TENANT = Tenant(name="t", namespace="default", uid="vc-0", root="default-000000-t")
SENT = "2026-01-01T00:00:10.000000Z"
SECONDS = 1767225610.0


@pytest.fixture
def tenant() -> DrillTenant:
    return DrillTenant(0, None, TENANT, None)  # type: ignore[arg-type]  # no server is asked


@pytest.fixture
def judge(tenant: DrillTenant) -> DrillChecker:
    return DrillChecker([tenant])


def twin(name: str, uid: str, version: int = 5, **parts: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "below",
        "uid": f"super-{uid}",
        "resourceVersion": str(version),
        "annotations": ownership.build_owner_annotations(TENANT, "web", uid),
    }
    return {"metadata": metadata, **parts}


def pod(version: int = 5) -> dict[str, Any]:
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    return twin("p", "u-pod", version, spec={"volumes": volumes}, status={"phase": "Running"})


def rules(judge: DrillChecker) -> list[str]:
    return [each.rule for each in judge.findings]


def delete(uid: str) -> dict[str, Any]:
    return {
        "verb": "delete",
        "objectRef": {"resource": "services", "namespace": "below", "name": "web"},
        "requestObject": {"preconditions": {"uid": uid}} if uid else {},
        "requestReceivedTimestamp": SENT,
        "responseStatus": {"code": 200},
    }


@pytest.mark.parametrize("is_marked", [False, True])
def test_what_no_one_asked_for_is_wrong_once(judge, is_marked):
    body = twin("web", "u1")
    judge.below(SERVICES)("ADDED", body)
    if is_marked:
        body["metadata"]["deletionTimestamp"] = SENT
    judge.below(SERVICES)("MODIFIED" if is_marked else "DELETED", body)
    judge.below(SERVICES)("DELETED", body)
    assert rules(judge) == ["wrong delete"]


def test_what_was_asked_for_is_right(judge, tenant):
    tenant.asked["u1"] = SECONDS
    judge.below(SERVICES)("ADDED", twin("web", "u1"))
    judge.below(SERVICES)("DELETED", twin("web", "u1"))
    assert rules(judge) == []


@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
def test_what_belongs_to_no_tenant_stays_as_it_is(judge, kind):
    body = {"metadata": {"name": "x", "namespace": "below", "uid": "s", "resourceVersion": "7"}}
    judge.bystanders["s"] = "7"
    judge.below(SERVICES)("ADDED", body)
    assert rules(judge) == []
    body["metadata"]["resourceVersion"] = "8"
    judge.below(SERVICES)(kind, body)
    assert rules(judge) == ["wrong delete"]


@pytest.mark.parametrize(("made", "expected"), [(5, ["wrong delete"]), (9, [])])
def test_configuration_that_a_pod_needed_before_must_stay(judge, made, expected):
    judge.below(CONFIG_MAPS)("ADDED", twin("c", "u1"))
    judge.below(PODS)("ADDED", pod(made))
    judge.below(CONFIG_MAPS)("DELETED", twin("c", "u1", 8))
    assert rules(judge) == expected


def test_configuration_that_no_pod_needs_may_go(judge, tenant):
    judge.below(CONFIG_MAPS)("ADDED", twin("c", "u1"))
    judge.below(PODS)("ADDED", pod())
    tenant.asked["u-pod"] = SECONDS
    judge.below(CONFIG_MAPS)("DELETED", twin("c", "u1", 8))
    assert rules(judge) == []


def test_nothing_goes_in_a_tenant_that_it_did_not_ask_for(judge, tenant):
    body = {"metadata": {"name": "p", "namespace": "web", "uid": "u1", "resourceVersion": "3"}}
    tenant.is_judged = False
    judge.above(tenant, PODS)("DELETED", body)
    assert rules(judge) == []
    tenant.is_judged = True
    judge.above(tenant, PODS)("DELETED", body)
    assert rules(judge) == ["wrong delete"]


def test_a_delete_is_judged_as_it_was_sent(judge, tenant):
    judge.below(SERVICES)("ADDED", twin("web", "u1"))
    judge.sent(delete("super-u1"))
    assert rules(judge) == ["wrong delete"]
    tenant.asked["u1"] = SECONDS + 1
    judge.sent(delete("super-u1"))
    assert "too early" in judge.findings[-1].text
    tenant.asked["u1"] = SECONDS - 1
    judge.sent(delete("super-u1"))
    assert len(judge.findings) == 2
    judge.sent(delete(""))
    assert "without a UID" in judge.findings[-1].text
    judge.sent(delete("unknown"))
    assert (judge.deletes, judge.unjudged) == (5, 1)


def test_a_delete_that_was_turned_away_unread_is_not_judged(judge):
    refused = {**delete(""), "responseStatus": {"code": 403}}
    judge.sent(refused)
    assert rules(judge) == ["wrong delete"]
    del refused["requestObject"]
    judge.sent(refused)
    assert judge.deletes == 1


def test_half_a_line_of_a_killed_server_is_passed_over(tmp_path):
    log = tmp_path / "audit.log"
    line = json.dumps(
        {**delete("u"), "stage": "ResponseComplete", "user": {"username": "syncer"}}
    ).encode()
    audit = AuditLogTail(log, "syncer")
    assert audit.writes() == []
    log.write_bytes(line + b"\n" + line[:40])
    assert len(audit.writes()) == 1
    with log.open("ab") as more:
        more.write(line + b"\n" + line + b"\n" + line.replace(b"syncer", b"other") + b"\n")
    assert len(audit.writes()) == 1
