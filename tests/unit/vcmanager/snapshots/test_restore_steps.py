"""Order of a restore, and each refusal before anything is stopped."""

from dataclasses import replace

import pytest

from tenancy.snapshots import view
from tests.support.vcmanager.factories import TENANT
from tests.support.vcmanager.snapshots import make_snapshot, snapshot_body
from vcmanager.snapshots.jobs import JobResult
from vcmanager.snapshots.restore_steps import (
    RestoreFacts,
    RestoreStep,
    decide_restore,
)

GOOD = JobResult(is_done=True)
RUNNING = JobResult(is_done=False)
BAD = JobResult(is_done=True, is_failed=True, reason="ChecksumMismatch", message="other bytes")
EARLY = replace(BAD, is_before_last=True)
WAITS = JobResult(is_done=False, has_started=False, message="0/1 nodes")
FACTS = RestoreFacts(
    snapshot=make_snapshot(),
    tenant_uid=TENANT.uid,
    running_minor="1.36",
    wanted_minor="1.36",
    etcd_version="3.7.3",
    has_etcd=True,
    has_claim=True,
    encryption_digest="",
    check=None,
    restore=None,
    is_connected=True,
    is_running=True,
)


@pytest.mark.parametrize(
    ("changes", "step", "phase"),
    [
        ({}, RestoreStep.CREATE_CHECK, "Checking"),
        ({"check": RUNNING}, RestoreStep.WAIT, "Checking"),
        ({"check": BAD}, RestoreStep.FAIL, "Failed"),
        ({"check": GOOD}, RestoreStep.WAIT, "Stopping"),
        ({"check": GOOD, "is_connected": False}, RestoreStep.STOP, "Stopping"),
        (
            {"check": GOOD, "is_connected": False, "is_running": False},
            RestoreStep.ANNOUNCE,
            "Restoring",
        ),
        # Whatever becomes of the snapshot, an announced restore goes on.
        (
            {"is_announced": True, "is_running": False, "snapshot": None},
            RestoreStep.CREATE_RESTORE,
            "Restoring",
        ),
        ({"is_announced": True}, RestoreStep.STOP, "Restoring"),
        # A running tenant stays connected until it stops, whatever order the two facts change in.
        ({"check": GOOD, "is_running": False}, RestoreStep.WAIT, "Stopping"),
        ({"check": GOOD, "restore": RUNNING}, RestoreStep.WAIT, "Restoring"),
        ({"check": GOOD, "restore": GOOD}, RestoreStep.FINISH, "Complete"),
        # Only a failure before the last container proves that the data is the present one.
        ({"restore": EARLY}, RestoreStep.FAIL, "Failed"),
        ({"restore": BAD}, RestoreStep.DELETE_JOB, "Restoring"),
        ({"restore": EARLY, "last_reason": "Retrying"}, RestoreStep.DELETE_JOB, "Restoring"),
        # A pod that never started is deleted first, and then the tenant starts.
        ({"restore": WAITS, "job_age": 299.0}, RestoreStep.WAIT, "Restoring"),
        ({"restore": WAITS, "job_age": 301.0}, RestoreStep.DELETE_JOB, "Restoring"),
        ({"restore": RUNNING, "job_age": 9000.0}, RestoreStep.WAIT, "Restoring"),
        ({"is_announced": True, "last_reason": "JobNotStarted"}, RestoreStep.FAIL, "Failed"),
        # The Job decides, even if the snapshot was deleted meanwhile.
        ({"snapshot": None, "restore": GOOD}, RestoreStep.FINISH, "Complete"),
        ({"snapshot": None, "restore": RUNNING}, RestoreStep.WAIT, "Restoring"),
    ],
)
def test_the_next_step(changes, step, phase):
    decision = decide_restore(replace(FACTS, **changes))
    assert (decision.step, decision.phase) == (step, phase)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"snapshot": None}, "SnapshotNotFound"),
        ({"snapshot": make_snapshot("Failed")}, "SnapshotNotComplete"),
        ({"snapshot": make_snapshot("Running")}, "SnapshotNotComplete"),
        ({"tenant_uid": "another"}, "OtherTenant"),
        ({"has_etcd": False}, "NotSupported"),
        ({"has_claim": False}, "ClaimMissing"),
        ({"running_minor": "1.37", "wanted_minor": "1.37"}, "OtherKubernetesMinor"),
        ({"running_minor": "1.37", "wanted_minor": ""}, "OtherKubernetesMinor"),
        ({"etcd_version": "3.6.9"}, "OtherEtcdVersion"),
        (
            {"snapshot": make_snapshot(secrets={"encryption-keys": "ab"})},
            "EncryptionKeysMissing",
        ),
    ],
)
def test_a_refusal_names_the_reason_and_stops_nothing(changes, reason):
    decision = decide_restore(replace(FACTS, check=GOOD, is_connected=False, **changes))
    assert (decision.step, decision.reason) == (RestoreStep.FAIL, reason)
    assert decision.message.endswith(".")


@pytest.mark.parametrize(
    "changes",
    [
        {"running_minor": "", "wanted_minor": "1.37"},
        # A restore undoes an upgrade, or an upgrade that never became ready.
        {"running_minor": "1.37"},
        {"wanted_minor": "1.37"},
        {"etcd_version": "3.8.0"},
        {"etcd_version": ""},
        {"snapshot": make_snapshot(secrets={"encryption-keys": "a"}), "encryption_digest": "b"},
        # An encrypted tenant has no other use of a snapshot from before its upgrade.
        {
            "snapshot": make_snapshot(secrets={"encryption-keys": "a"}),
            "encryption_digest": "b",
            "running_minor": "1.37",
        },
    ],
)
def test_what_is_no_refusal(changes):
    decision = decide_restore(replace(FACTS, **changes))
    assert decision.step is RestoreStep.CREATE_CHECK


@pytest.mark.parametrize(
    "changes", [{"check": BAD}, {"restore": EARLY}, {"snapshot": None}, {"has_claim": False}]
)
def test_a_failure_names_the_way_back_of_a_changed_version(changes):
    decision = decide_restore(replace(FACTS, running_minor="1.37", **changes))
    assert decision.step is RestoreStep.FAIL
    way = " Set spec.clusterVersionName back to a ClusterVersion of 1.37."
    assert decision.message.endswith(f".{way}")
    assert way not in decide_restore(replace(FACTS, **changes)).message


def test_after_a_failure_in_the_middle_the_reason_stays_until_the_end():
    facts = replace(FACTS, is_announced=True, is_running=False, last_reason="Retrying")
    assert decide_restore(facts).reason == "Retrying"
    assert decide_restore(replace(facts, restore=RUNNING)).reason == "Retrying"
    assert decide_restore(replace(facts, restore=GOOD)).phase == "Complete"


def imported(**manifest: object):
    """Return an imported snapshot of another tenant."""
    body = snapshot_body(**{"virtualClusterUID": "another", **manifest})
    body["spec"]["imported"] = {"manifest": body["status"]["manifest"]}
    return view.parse_snapshot(body)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"snapshot": imported()}, "OtherTenant"),
        (
            {"snapshot": make_snapshot(virtualClusterUID="another"), "is_held": True},
            "OtherTenant",
        ),
        (
            {"snapshot": imported(secrets={"encryption-keys": "a"}), "is_held": True},
            "EncryptedData",
        ),
        ({"snapshot": imported(), "is_held": True}, "Checking"),
        ({"snapshot": imported(virtualClusterUID=TENANT.uid)}, "Checking"),
    ],
)
def test_another_tenants_snapshot_needs_a_suspended_tenant(changes, reason):
    assert decide_restore(replace(FACTS, **changes)).reason == reason


def test_a_new_tenant_waits_for_a_person():
    facts = replace(FACTS, snapshot=imported(), is_held=True, restore=GOOD)
    assert "confirm-start" in decide_restore(facts).message
