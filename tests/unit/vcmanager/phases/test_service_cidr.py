from ipaddress import ip_network

import pytest

from kubeio import errors
from tenancy import names, ownership, wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means, wish
from vcmanager.phases import service_cidr
from vcmanager.plan import service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects

WHOLE = ip_network("10.96.0.0/22")
FREE = ObservedObjects(namespace={"metadata": {"name": TENANT.root}})


def service(name="kubernetes", *, cidr="10.96.0.0/28", root=TENANT.root, uid=TENANT.uid):
    labels = {**ownership.build_owner_labels(TENANT, ""), wellknown.VC_UID: uid}
    annotations = {wellknown.SERVICE_CIDR: cidr} if cidr else {}
    metadata = {"name": name, "namespace": root, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {}}


@pytest.mark.parametrize("cidr", ["", "nonsense"])
async def test_an_own_service_without_a_readable_claim_is_shown_and_not_claimed_around(cidr):
    super_client = RecordingClient()
    snapshot = ObservedObjects(
        namespace=FREE.namespace, objects={"Service": {"kubernetes": service(cidr=cidr)}}
    )
    with pytest.raises(PhaseBlocked, match="has no annotation with its service range") as caught:
        await service_cidr.ensure_service_range(fake_means(super_client), wish(), snapshot, WHOLE)
    assert (caught.value.reason, caught.value.needs_admin) == ("ClaimUnreadable", True)
    assert f"{TENANT.root}/kubernetes" in caught.value.message
    assert super_client.calls == []


async def test_a_name_that_is_taken_is_not_answered_with_the_next_slice():
    super_client = RecordingClient()
    super_client.problems["create", "kube-dns"] = errors.AlreadyExists("kube-dns exists")
    with pytest.raises(
        PhaseBlocked, match="kube-dns exists without a claim\\. Delete it"
    ) as caught:
        await service_cidr.ensure_service_range(fake_means(super_client), wish(), FREE, WHOLE)
    assert caught.value.reason == "ClaimUnreadable"
    assert super_client.calls == [("create", "kubernetes"), ("delete", "kubernetes")]


async def test_an_address_that_is_taken_is_answered_with_the_next_slice():
    causes = [{"field": "spec.clusterIPs", "reason": "FieldValueInvalid"}]
    super_client = RecordingClient()
    super_client.problems["create", "kube-dns"] = errors.Invalid("no", details={"causes": causes})
    with pytest.raises(PhaseBlocked) as caught:
        await service_cidr.ensure_service_range(fake_means(super_client), wish(), FREE, WHOLE)
    assert caught.value.reason == "NoFreeSlice"
    assert super_client.calls.count(("create", "kubernetes")) == 64


async def test_services_that_only_look_like_claims_take_nothing():
    first = next(service_cidrs.iterate_free_ranges(WHOLE, TENANT.uid, ()))
    super_client = RecordingClient()
    super_client.listed = [
        service(cidr=str(first), root="default"),
        service(cidr=str(first), uid="another"),
        service(cidr="nonsense", root="default"),
    ]
    assert (
        await service_cidr.ensure_service_range(fake_means(super_client), wish(), FREE, WHOLE)
        == first
    )


async def test_a_claim_of_another_tenant_is_passed_over():
    first = next(service_cidrs.iterate_free_ranges(WHOLE, TENANT.uid, ()))
    other = service(cidr=str(first), uid="another")
    other["metadata"]["namespace"] = names.build_root_namespace("default", "vc-1", "another")
    super_client = RecordingClient()
    super_client.listed = [other]
    found = await service_cidr.ensure_service_range(fake_means(super_client), wish(), FREE, WHOLE)
    assert isinstance(found, ServiceRange)
    assert found != first
