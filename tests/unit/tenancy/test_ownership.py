"""Ownership is two UIDs; half a record is no record."""

from dataclasses import replace

import pytest

from tenancy import ownership, wellknown

TENANT = ownership.Tenant(name="vc-1", namespace="default", uid="vc-uid", root="default-abc-vc-1")


def test_what_is_written_is_read():
    metadata = {"annotations": ownership.annotations(TENANT, "web", "pod-uid")}
    assert ownership.owner_of(metadata) == ownership.Owner("vc-uid", "pod-uid", "web")


@pytest.mark.parametrize("missing", [wellknown.VC_UID, wellknown.UID])
def test_half_a_record_proves_nothing(missing: str):
    annotations = ownership.annotations(TENANT, "web", "pod-uid")
    del annotations[missing]
    assert ownership.owner_of({"annotations": annotations}) is None


def test_a_record_without_a_namespace_is_that_of_something_that_is_in_none():
    annotations = ownership.annotations(TENANT, "", "volume-uid")
    del annotations[wellknown.NAMESPACE]
    assert ownership.owner_of({"annotations": annotations}) == ("vc-uid", "volume-uid", "")


def test_what_is_in_another_super_cluster_says_so_and_is_a_strangers_elsewhere():
    far = replace(TENANT, registration="r1")
    record = ownership.annotations(far, "web", "pod-uid")
    assert record == {
        **ownership.annotations(TENANT, "web", "pod-uid"), wellknown.SUPER_CLUSTER: "r1",
    }  # fmt: skip
    assert ownership.labels(far, "web")[wellknown.SUPER_CLUSTER] == "r1"
    assert wellknown.SUPER_CLUSTER not in ownership.labels(TENANT, "web")
    metadata = {"annotations": record}
    assert ownership.owner_of(metadata, "r1") == ownership.Owner("vc-uid", "pod-uid", "web")
    assert ownership.owner_of(metadata) is None
    assert ownership.owner_of(metadata, "r2") is None
    at_home = {"annotations": ownership.annotations(TENANT, "web", "pod-uid")}
    assert ownership.owner_of(at_home, "r1") is None
    assert (far.owns(metadata), TENANT.owns(metadata)) == (True, False)
    assert (far.owns(at_home), TENANT.owns(at_home)) == (False, True)
    assert not replace(TENANT, uid="another").owns(at_home)
    assert not TENANT.owns({})


def test_labels_find_one_tenant_and_one_of_its_namespaces():
    assert ownership.labels(TENANT, "web")[wellknown.NAMESPACE] == "web"
    assert wellknown.NAMESPACE not in ownership.labels(TENANT, "")
    assert ownership.labels(TENANT, "")[wellknown.VC_UID] == "vc-uid"
