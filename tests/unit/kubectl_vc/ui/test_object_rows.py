"""Pairs of tenant objects and copies, and the reason why an object is not synced."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_vc.ui import object_rows
from kubectl_vc.ui.object_rows import CopyPair
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant

NOW = datetime(2026, 6, 1, 0, 1, tzinfo=UTC)
TENANT = Tenant(name="web", namespace="d", uid="vc", root="root")


def tenant_pod(**metadata: Any) -> dict[str, Any]:
    created = "2026-06-01T00:00:00Z"
    return {
        "metadata": {"name": "p", "uid": "u", "creationTimestamp": created, **metadata},
        "spec": {"containers": [{}]},
        "status": {"phase": "Pending"},
    }


def copy(uid: str = "u", owner: Tenant = TENANT, seconds: int = 3) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "p",
            "namespace": "root-shop",
            "creationTimestamp": f"2026-06-01T00:00:{seconds:02d}Z",
            "annotations": ownership.build_owner_annotations(owner, "shop", uid),
        },
        "spec": {"containers": [{}], "nodeName": "node-1"},
        "status": {"phase": "Running"},
    }


def event(reason: str, message: str = "m", uid: str = "u", time: str = "00:30") -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {"uid": uid, "kind": "Pod", "name": "p"},
        "lastTimestamp": f"2026-06-01T00:{time}Z",
    }


def row(
    above: Any, below: Any, *events: Any, known: tuple[bool, bool] = (True, True)
) -> object_rows.ObjectRow:
    pair = CopyPair(
        name="p", tenant_object=above, is_tenant_known=known[0], copy=below, is_copy_known=known[1]
    )
    return object_rows.build_object_row(pair, TENANT, events, NOW)


def test_a_synced_pod_has_node_and_lag():
    found = row(tenant_pod(), copy())
    assert (found.tenant.text, found.copy.text) == ("Pending", "Running")
    assert (found.node, found.lag, found.refused) == ("node-1", "3s", "")
    assert found.copy_name == "root-shop/p"
    assert row(tenant_pod(), copy(seconds=0)).lag == "< 1s"


STRANGER = Tenant(name="web", namespace="d", uid="other", root="root")


@pytest.mark.parametrize("below", [copy(uid="older"), copy(owner=STRANGER)])
def test_an_object_of_another_owner_is_no_copy(below: Any):
    found = row(tenant_pod(), below)
    assert found.copy == object_rows.State("another owner's object", "bad")
    assert (found.node, found.copy_name, found.lag) == ("", "", "waiting for 60s")


def test_a_refused_pod_has_its_reason():
    found = row(
        tenant_pod(),
        None,
        event("SyncRejected", "older", time="00:10"),
        event("SyncRejected", "hostNetwork\nis not allowed"),
        event("SyncRejected", "of another pod", uid="v"),
        event("Pulled"),
    )
    assert found.refused == "SyncRejected: hostNetwork is not allowed"
    assert (found.copy.text, found.lag) == ("none", "waiting for 60s")


def test_a_refusal_before_the_copy_is_over():
    early = event("SyncRejected", time="00:01")
    assert row(tenant_pod(), copy(), early).refused == ""
    assert row(tenant_pod(), copy(), event("SyncFailed")).refused == "SyncFailed: m"


def test_a_pod_in_a_target_has_no_copy_here():
    above = tenant_pod(annotations={wellknown.ASSIGNED_CLUSTER: "east/0123456789abcdef"})
    found = row(above, None)
    assert (found.target, found.copy.text, found.lag) == ("east", "in the target", "")


def test_what_is_not_read_is_not_missing():
    assert row(None, copy(), known=(False, True)).tenant.text == "not read"
    assert row(None, copy()).tenant.text == "does not exist"
    assert row(tenant_pod(), None, known=(True, False)).copy.text == "not read"


def test_states_of_pods_and_others():
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    broken = {**tenant_pod(), "status": {"containerStatuses": [waiting]}}
    assert row(broken, None).tenant == object_rows.State("CrashLoopBackOff", "bad")
    assert row(tenant_pod(deletionTimestamp="x"), None).tenant.text == "Terminating"
    service = {"metadata": {"name": "p", "uid": "u"}}
    assert row(service, None).tenant == object_rows.State("exists", "good")


def test_the_newest_events_come_first():
    events = [event("A", time="00:01"), {**event("B"), "type": "Warning", "count": 3}, {}]
    first, second = object_rows.build_event_rows(events, NOW, limit=2)
    assert (first.reason, first.kind.grade, first.count, first.age) == ("B", "bad", "3", "30s")
    assert (second.reason, second.kind.grade, second.involved) == ("A", "good", "Pod p")
