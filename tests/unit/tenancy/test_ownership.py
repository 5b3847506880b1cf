"""Ownership is two UIDs. Half a record is no record."""

from dataclasses import replace

import pytest

from tenancy import ownership, wellknown

TENANT = ownership.Tenant(name="vc-1", namespace="default", uid="vc-uid", root="default-abc-vc-1")


def test_what_is_written_is_read():
    metadata = {"annotations": ownership.build_owner_annotations(TENANT, "web", "pod-uid")}
    assert ownership.read_owner(metadata) == ownership.TwinOwner("vc-uid", "pod-uid", "web")


@pytest.mark.parametrize("missing", [wellknown.VC_UID, wellknown.UID])
def test_half_a_record_proves_nothing(missing: str):
    annotations = ownership.build_owner_annotations(TENANT, "web", "pod-uid")
    del annotations[missing]
    assert ownership.read_owner({"annotations": annotations}) is None


def test_a_record_without_a_namespace_is_that_of_something_that_is_in_none():
    annotations = ownership.build_owner_annotations(TENANT, "", "volume-uid")
    del annotations[wellknown.NAMESPACE]
    assert ownership.read_owner({"annotations": annotations}) == ("vc-uid", "volume-uid", "")


def test_what_is_in_another_super_cluster_reports_it_and_is_foreign_elsewhere():
    far = replace(TENANT, super_cluster_uid="r1")
    record = ownership.build_owner_annotations(far, "web", "pod-uid")
    assert record == {
        **ownership.build_owner_annotations(TENANT, "web", "pod-uid"),
        wellknown.SUPER_CLUSTER: "r1",
    }  # fmt: skip
    assert ownership.build_owner_labels(far, "web")[wellknown.SUPER_CLUSTER] == "r1"
    assert wellknown.SUPER_CLUSTER not in ownership.build_owner_labels(TENANT, "web")
    metadata = {"annotations": record}
    assert ownership.read_owner(metadata, "r1") == ownership.TwinOwner("vc-uid", "pod-uid", "web")
    assert ownership.read_owner(metadata) is None
    assert ownership.read_owner(metadata, "r2") is None
    at_home = {"annotations": ownership.build_owner_annotations(TENANT, "web", "pod-uid")}
    assert ownership.read_owner(at_home, "r1") is None
    assert (far.owns(metadata), TENANT.owns(metadata)) == (True, False)
    assert (far.owns(at_home), TENANT.owns(at_home)) == (False, True)
    assert not replace(TENANT, uid="another").owns(at_home)
    assert not TENANT.owns({})


def test_labels_find_one_tenant_and_one_of_its_namespaces():
    assert ownership.build_owner_labels(TENANT, "web")[wellknown.NAMESPACE] == "web"
    assert wellknown.NAMESPACE not in ownership.build_owner_labels(TENANT, "")
    assert ownership.build_owner_labels(TENANT, "")[wellknown.VC_UID] == "vc-uid"


def test_owner_reference_names_the_virtual_cluster():
    reference = ownership.build_owner_reference(TENANT)
    assert reference == {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "name": "vc-1",
        "uid": "vc-uid",
    }
    assert ownership.is_only_owner({"ownerReferences": [reference]}, TENANT)


@pytest.mark.parametrize("uids", [(), ("another",), ("vc-uid", "another")])
def test_another_owner_is_noticed(uids):
    owners = [{"uid": each} for each in uids]
    assert not ownership.is_only_owner({"ownerReferences": owners} if uids else {}, TENANT)
