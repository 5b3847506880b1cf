"""Volumes both ways: what is shown of the super cluster's, and what goes down of the tenant's."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse_entry
from syncer.model import mirrored_kinds
from syncer.model.rejections import RejectedError
from syncer.rules.storage import volumes
from syncer.rules.storage.volumes import ClaimReference
from tenancy import names, ownership, wellknown
from tenancy.policies import TenantPolicySpec
from tests.support.syncer.storage import (
    BELOW,
    NFS,
    TENANT,
    entry,
    own,
    super_volume,
    twin_below,
    view,
)
from tests.unit.syncer.model.test_object_meta import OBJECTS

# --- volumes, up ----------------------------------------------------------------------------------


def full_volume() -> dict[str, Any]:
    """Return a super volume with everything a tenant must not see."""
    return {
        "metadata": {
            "name": "pvc-1",
            "uid": "pv-uid",
            "labels": {"topology.kubernetes.io/zone": "secret-zone"},
            "annotations": {"pv.kubernetes.io/provisioned-by": "secret-provisioner"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": BELOW, "name": "c", "uid": "c-uid"},
            "csi": {
                "driver": "csi.example",
                "volumeHandle": "secret-handle",
                "nodeStageSecretRef": {"name": "secret-name", "namespace": "secret-space"},
                "volumeAttributes": {"path": "secret-path"},
            },
            "mountOptions": ["secret-option"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": ["secret-node"]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "gold",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound", "message": "secret-message"},
    }


def test_a_shown_volume_reports_nothing_of_the_super_cluster():
    shown = volumes.build_shown_volume(full_volume(), ClaimReference("web", "c", "u"))
    spelled = orjson.dumps(shown).decode()
    assert "secret" not in spelled
    assert TENANT.root not in spelled
    assert shown["spec"]["csi"] == {"driver": "csi.example", "volumeHandle": "pvc-1"}
    assert shown["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "web",
        "name": "c",
        "uid": "u",
    }
    assert set(shown["spec"]) == {
        "accessModes",
        "capacity",
        "claimRef",
        "csi",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
    }


@pytest.mark.parametrize("source", [{"hostPath": {"path": "/secret"}}, {"local": {"path": "/s"}}])
def test_a_path_of_a_node_is_shown_as_a_handle(source):
    body = full_volume()
    del body["spec"]["csi"]
    shown = volumes.build_shown_volume(
        {**body, "spec": {**body["spec"], **source}}, ClaimReference("web", "c", "u")
    )
    assert shown["spec"]["csi"] == {"driver": volumes.PLACEHOLDER_DRIVER, "volumeHandle": "pvc-1"}
    assert not set(source) & set(shown["spec"])


def test_a_volume_is_the_tenants_when_both_sides_report_it():
    seen = view()
    bound = entry("PersistentVolume", "pvc-1", spec=full_volume()["spec"])
    assert volumes.get_bound_super_claim(bound, seen) is None
    twin_below(seen, spec={"volumeName": "pvc-1"})
    found = volumes.get_bound_super_claim(bound, seen)
    assert found is not None
    unproved = super_volume("pvc-1", "c", spec={"claimRef": {"namespace": BELOW, "name": "c"}})
    assert volumes.get_bound_super_claim(unproved, seen) is None
    record = {"annotations": ownership.build_owner_annotations(TENANT, "", "x")}
    written = entry("PersistentVolume", "pvc-1", spec=full_volume()["spec"], metadata=record)
    assert volumes.get_bound_super_claim(written, seen) is None  # the tenant has that one already
    other = view()
    twin_below(other, spec={"volumeName": "pvc-2"})
    assert volumes.get_bound_super_claim(bound, other) is None


def test_a_foreign_claim_shows_nothing():
    seen = view()
    stranger = entry("PersistentVolumeClaim", "c", BELOW, spec={"volumeName": "pvc-1"})
    seen.super_stores["PersistentVolumeClaim"].put(stranger, live=True)
    bound = entry("PersistentVolume", "pvc-1", spec=full_volume()["spec"])
    assert volumes.get_bound_super_claim(bound, seen) is None


# --- volumes, down --------------------------------------------------------------------------------


def test_the_twin_of_a_volume_is_pinned_and_kept():
    space = entry("Namespace", BELOW)
    twin = volumes.build_volume(own(mountOptions=["ro"]), ("web", "c"), space, view())
    assert twin["metadata"]["name"] == names.build_volume_name(TENANT.uid, "mine")
    assert twin["metadata"]["ownerReferences"][0]["uid"] == space.uid
    assert ownership.read_owner(twin["metadata"]) == ownership.TwinOwner(TENANT.uid, "mine-uid", "")
    assert twin["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": BELOW,
            "name": "c",
        },
        "mountOptions": ["ro"],
        "nfs": NFS,
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
    }


CSI = {"driver": "csi.example", "volumeHandle": "h"}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"hostPath": {"path": "/"}}, "volume-source"),
        ({"nfs": {"server": "other.example", "path": "/"}}, "volume-source"),
        ({"nfs": {"path": "/"}}, "volume-source"),
        ({"nfs": {}}, "volume-source"),
        ({"nfs": "nfs.example"}, "malformed"),
        ({"nfs": {"server": {"x": 1}, "path": "/"}}, "malformed"),
        ({"csi": {**CSI, "driver": "other"}}, "volume-source"),
        ({"csi": {"volumeHandle": "h"}}, "volume-source"),
        ({"csi": {**CSI, "nodeStageSecretRef": {"name": "s", "namespace": "x"}}}, "volume-secret"),
        ({"csi": CSI, "nfs": NFS}, "volume-source"),
        ({"nfs": None}, "volume-source"),
        ({"mountOptions": ["suid"]}, "mount-options"),
        ({"mountOptions": "bind"}, "mount-options"),
        ({"nodeAffinity": {"required": {}}}, "volume-affinity"),
        ({"surprise": {}}, "unknown-field"),
    ],
)
def test_volumes_that_are_refused(spec, rule):
    with pytest.raises(RejectedError) as raised:
        volumes.build_volume(own(**spec), ("web", "c"), None, view())
    assert rule in {problem.rule for problem in raised.value.problems}


def test_a_listed_driver_is_offered_and_without_a_list_nothing_is():
    assert volumes.build_volume(own(csi=CSI), ("web", "c"), None, view())["spec"]["csi"] == CSI
    for source in ({"csi": CSI}, {"nfs": NFS}):
        with pytest.raises(RejectedError):
            volumes.build_volume(own(**source), None, None, view(TenantPolicySpec()))


@given(OBJECTS)
def test_whatever_a_volume_holds_it_is_built_or_refused(spec):
    tenant_x = {"metadata": {"name": "mine", "uid": "x"}, "spec": spec}
    found = parse_entry(orjson.dumps(tenant_x))
    assert volumes.may_sync_down(found, view()) in (True, False)
    assert volumes.get_claim_reference(found) is None or isinstance(
        volumes.get_claim_reference(found), tuple
    )


def live_volume(phase: str, uid: str = "") -> dict[str, Any]:
    """Return the twin of the plain volume as the super cluster hands it out."""
    twin = volumes.build_volume(own(), ("web", "c"), None, view())
    reference = {**twin["spec"]["claimRef"], **({"uid": uid} if uid else {})}
    return {
        "metadata": {**twin["metadata"], "uid": "b"},
        "spec": {**twin["spec"], "claimRef": reference, "volumeMode": "Filesystem"},
        "status": {"phase": phase},
    }


def test_a_volume_is_pinned_again_only_when_it_was_moved_or_freed():
    twin = volumes.build_volume(own(), ("web", "c"), None, view())
    assert volumes.build_patch(live_volume("Bound", "c-uid"), twin, own()) is None
    taken = own(claimRef={"namespace": "web", "name": "c", "uid": "old"})
    assert volumes.build_patch(live_volume("Released", "c-uid"), twin, taken) is None
    freed = volumes.build_patch(live_volume("Released", "c-uid"), twin, own())
    assert freed is not None
    assert freed["spec"]["claimRef"]["uid"] is None
    moved = volumes.build_patch(
        live_volume("Bound", "c-uid"), volumes.build_volume(own(), ("db", "c"), None, view()), own()
    )
    assert moved is not None
    assert moved["spec"]["claimRef"]["namespace"] == f"{TENANT.root}-db"


def test_a_bound_volume_names_the_tenants_claim():
    tenant_claim = entry("PersistentVolumeClaim", "c", "web")
    assert volumes.build_claim_up(own(), live_volume("Available"), tenant_claim) is None
    body = volumes.build_claim_up(own(), live_volume("Bound"), tenant_claim)
    assert body is not None
    assert body["spec"]["claimRef"]["uid"] == "c-uid"
    named = own(claimRef=body["spec"]["claimRef"])
    assert volumes.build_claim_up(named, live_volume("Bound"), tenant_claim) is None


def test_a_phase_is_reported_once_and_never_a_pending_one():
    bound = {**own(), "status": {"phase": "Bound"}}
    assert volumes.build_phase_patch(bound, "Bound") is None
    assert volumes.build_phase_patch(bound, "Pending") is None
    assert volumes.build_phase_patch({**own(), "status": "odd"}, "Bound") is not None


@given(
    st.tuples(st.text(min_size=1), st.text(min_size=1)),
    st.tuples(st.text(min_size=1), st.text(min_size=1)),
)
def test_no_two_volumes_share_a_name_in_the_super_cluster(one, other):
    assert (names.build_volume_name(*one) == names.build_volume_name(*other)) == (one == other)
    assert len(names.build_volume_name(*one)) <= names.MAX_LABEL


def test_names_cannot_be_shifted_between_tenant_and_volume():
    assert names.build_volume_name("a", "bc") != names.build_volume_name("ab", "c")


def test_what_a_tenant_marks_as_ours_never_goes_down():
    forged = entry(
        "PersistentVolume",
        "mine",
        metadata={"labels": {wellknown.MIRRORED: "true"}},
        spec=own()["spec"],
    )
    assert mirrored_kinds.is_own_mirror(forged)
    assert not volumes.may_sync_down(forged, view())
