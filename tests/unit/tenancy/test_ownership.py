"""Ownership is two UIDs; half a record is no record."""

import pytest

from tenancy import marks, ownership

TENANT = ownership.Tenant(name="vc-1", namespace="default", uid="vc-uid", root="default-abc-vc-1")


def test_what_is_written_is_read():
    metadata = {"annotations": ownership.annotations(TENANT, "web", "pod-uid")}
    assert ownership.owner_of(metadata) == ownership.Owner("vc-uid", "pod-uid", "web")


@pytest.mark.parametrize("missing", [marks.VC_UID, marks.UID])
def test_half_a_record_proves_nothing(missing: str):
    annotations = ownership.annotations(TENANT, "web", "pod-uid")
    del annotations[missing]
    assert ownership.owner_of({"annotations": annotations}) is None


def test_a_record_without_a_namespace_is_that_of_something_that_is_in_none():
    annotations = ownership.annotations(TENANT, "", "volume-uid")
    del annotations[marks.NAMESPACE]
    assert ownership.owner_of({"annotations": annotations}) == ("vc-uid", "volume-uid", "")


def test_labels_find_one_tenant_and_one_of_its_namespaces():
    assert ownership.labels(TENANT, "web")[marks.NAMESPACE] == "web"
    assert marks.NAMESPACE not in ownership.labels(TENANT, "")
    assert ownership.labels(TENANT, "")[marks.VC_UID] == "vc-uid"
