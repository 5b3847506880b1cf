"""Next step of a snapshot, and its manifest."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenancy import wellknown
from tenancy.snapshots import view
from tests.support.vcmanager.snapshots import make_snapshot, snapshot_body
from vcmanager.snapshots import snapshot_steps
from vcmanager.snapshots.jobs import JobResult
from vcmanager.snapshots.snapshot_steps import SaveFacts

FACTS = SaveFacts(
    has_cluster=True,
    is_supported=True,
    is_asleep=False,
    is_etcd_ready=True,
    has_claim=True,
    may_create_claim=True,
    job=None,
)
DONE = JobResult(is_done=True, output={"sha256": "ab"})


@pytest.mark.parametrize(
    ("changes", "phase", "reason", "action"),
    [
        ({}, "Running", "Running", "create_job"),
        ({"job": JobResult(is_done=False)}, "Running", "Running", "none"),
        ({"job": DONE}, "Complete", "Saved", "none"),
        ({"job": DONE, "has_cluster": False}, "Complete", "Saved", "none"),
        ({"job": JobResult(is_done=True, output={})}, "Failed", "ResultMissing", "none"),
        (
            {"job": JobResult(is_done=True, is_failed=True, reason="VolumeFull", message="full")},
            "Failed",
            "VolumeFull",
            "none",
        ),
        ({"has_cluster": False}, "Failed", "VirtualClusterNotFound", "none"),
        ({"is_supported": False}, "Failed", "NotSupported", "none"),
        ({"is_asleep": True, "is_etcd_ready": False}, "Pending", "Asleep", "none"),
        ({"is_etcd_ready": False}, "Pending", "EtcdNotReady", "none"),
        ({"has_claim": False}, "Pending", "CreatingClaim", "create_claim"),
        ({"is_making_room": True}, "Pending", "MakingRoom", "none"),
        ({"has_claim": False, "may_create_claim": False}, "Pending", "ClaimMissing", "none"),
    ],
)
def test_the_next_step(changes, phase, reason, action):
    found = snapshot_steps.decide_save(replace(FACTS, **changes), make_snapshot("Pending"))
    assert (found.phase, found.reason, found.action) == (phase, reason, action)
    assert found.message.endswith(".")


def test_the_manifest_has_digests_and_no_content():
    cluster = {"metadata": {"uid": "u"}, "spec": {"clusterVersionName": "v1.36"}}
    secret = {"data": {"tls.key": "c2VjcmV0"}}
    found = snapshot_steps.build_manifest(
        cluster, {"root-ca": secret}, kubernetes_version="v1.36.1", etcd_version="3.7.3"
    )
    assert "c2VjcmV0" not in str(found)
    assert len(found["secrets"]["root-ca"]) == 64
    measured = {"sha256": "ab", "sizeBytes": 1, "unknown": True}
    whole = snapshot_steps.merge_manifest(found, measured)
    assert whole == {**found, "sha256": "ab", "sizeBytes": 1}
    changed = snapshot_steps.build_manifest(
        cluster,
        {"root-ca": {"data": {"tls.key": "b3RoZXI="}}},
        kubernetes_version="v1.36.1",
        etcd_version="3.7.3",
    )
    assert changed["secrets"] != found["secrets"]


@pytest.mark.parametrize(
    ("keep_for", "now", "expired"),
    [
        ("", "2100-01-01T00:00:00Z", False),
        ("1h", "2026-03-01T12:00:59Z", False),
        ("1h", "2026-03-01T12:01:00Z", True),
        ("soon", "2100-01-01T00:00:00Z", False),
    ],
)
def test_the_retention_begins_with_the_completion(keep_for, now, expired):
    body = snapshot_body()
    body["spec"]["retention"] = {"keepFor": keep_for}
    snapshot = view.parse_snapshot(body)
    moment = datetime.fromisoformat(now).astimezone(UTC)
    assert snapshot_steps.is_expired(snapshot, moment) is expired


def test_a_comparison_is_answered_once():
    body = snapshot_body()
    assert snapshot_steps.get_comparison_request(view.parse_snapshot(body)) == ""
    body["metadata"]["annotations"] = {wellknown.COMPARE_SNAPSHOT: "t"}
    assert snapshot_steps.get_comparison_request(view.parse_snapshot(body)) == "t"
    body["status"]["comparison"] = snapshot_steps.build_comparison(
        "t", {"removed": {"pods": 1}, "unknown": 1}
    )
    assert body["status"]["comparison"] == {"removed": {"pods": 1}, "requested": "t"}
    assert snapshot_steps.get_comparison_request(view.parse_snapshot(body)) == ""


def test_an_imported_snapshot_waits_for_its_file_and_not_for_etcd():
    body = snapshot_body("Pending")
    body["spec"]["imported"] = {"manifest": {"sha256": "ab" * 32}}
    waiting = view.parse_snapshot(body)
    assert not snapshot_steps.is_uploaded(waiting)
    facts = replace(FACTS, is_etcd_ready=False, is_uploaded=False)
    decision = snapshot_steps.decide_save(facts, waiting)
    assert (decision.phase, decision.reason, decision.action) == (
        "Pending",
        "WaitingForFile",
        "none",
    )
    body["metadata"]["annotations"] = {wellknown.UPLOADED_SNAPSHOT: "ab" * 32}
    uploaded = view.parse_snapshot(body)
    assert snapshot_steps.is_uploaded(uploaded)
    decision = snapshot_steps.decide_save(replace(facts, is_uploaded=True), uploaded)
    assert decision.action == "create_job"
    assert snapshot_steps.is_uploaded(make_snapshot("Pending"))


@pytest.mark.parametrize(
    ("phase", "complete", "summary"),
    [
        ("Pending", "Unknown", {"Reconciling": "True"}),
        ("Running", "Unknown", {"Reconciling": "True"}),
        ("Complete", "True", {}),
        ("Failed", "False", {"Stalled": "True"}),
    ],
)
def test_each_phase_has_a_condition_that_kstatus_knows(phase, complete, summary):
    decision = snapshot_steps.SaveDecision(phase, "Why", "m")
    made = snapshot_steps.build_conditions(decision, now="2026-03-01T12:00:00Z", generation=2)
    assert {each["type"]: each["status"] for each in made} == {"Complete": complete, **summary}
    assert {(each["reason"], each["observedGeneration"]) for each in made} == {("Why", 2)}
