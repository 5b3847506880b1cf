"""Information about claims in the tenant: volume, status and Events, without super names."""

from __future__ import annotations

from syncer.rules import events
from syncer.rules.storage import claim_status
from tenancy import names, ownership, wellknown
from tests.support.syncer.storage import BELOW, TENANT, claim, view


def test_a_bound_volume_goes_up_once():
    live = {"metadata": {}, "spec": {"volumeName": "pvc-1"}, "status": {"phase": "Pending"}}
    assert claim_status.build_volume_up(claim(), live) is None
    live["status"] = {"phase": "Bound"}
    assert claim_status.build_volume_up(claim(), live) == {
        "metadata": {"uid": "u"},
        "spec": {"volumeName": "pvc-1"},
    }
    assert claim_status.build_volume_up(claim(volumeName="pvc-1"), live) is None
    assert claim_status.build_volume_up(claim(volumeName="other"), live) is None


def test_the_status_goes_up_whole_without_super_names():
    live = {
        "metadata": {
            "namespace": BELOW,
            "annotations": ownership.build_owner_annotations(TENANT, "web", "u"),
        },
        "status": {
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "fast"},
            "conditions": [{"type": "Resizing", "status": "True", "message": f"in {BELOW}"}],
            "healthStatus": {"healthConditions": [{"message": "pool-7 is full"}]},
            "surprise": "x",
        },
    }
    body = claim_status.build_status_up(claim(), live)
    assert body is not None
    assert body["metadata"] == {"uid": "u"}
    assert body["status"]["conditions"][0]["message"] == "in web"
    assert not {"surprise", "healthStatus"} & set(body["status"])
    told = {**claim(), "status": {**body["status"]}}
    assert claim_status.build_status_up(told, live) is None
    told["status"]["conditions"][0] |= {"lastProbeTime": None, "lastTransitionTime": None}
    assert claim_status.build_status_up(told, live) is None  # an API server spells times like this
    told["status"]["currentVolumeAttributesClassName"] = "forged"
    assert claim_status.build_status_up(told, live) == {
        "metadata": {"uid": "u"},
        "status": {"currentVolumeAttributesClassName": None},
    }


def test_an_event_about_a_claim_names_its_volume_as_it_is_shown():
    record = ownership.build_owner_annotations(TENANT, "web", "u")
    twin = {"uid": "b", "annotations": {**record, wellknown.VOLUME: "mine"}}
    keyed = names.build_volume_name(TENANT.uid, "mine")
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "c", "uid": "b"},
        "message": f"volumes pvc-b and {keyed} in {BELOW}",
    }
    told = events.build_tenant_event(event, twin, view(), name="c", sanitize=str)
    assert told is not None
    assert told["message"] == "volumes pvc-b and mine in web"
