from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenancy import ownership, wellknown
from tests.support.vcmanager.factories import TENANT, UID
from vcmanager.plan import service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange, ServiceRangeError


@pytest.mark.parametrize(
    ("whole", "length"),
    [
        ("10.0.0.0/8", 22),
        ("10.112.0.0/12", 22),
        ("10.96.0.0/16", 22),
        ("10.96.0.0/18", 24),
        ("10.96.0.0/20", 26),
        ("10.96.0.0/22", 28),
        ("10.96.0.0/24", 28),
        ("10.96.0.0/28", 28),
        ("fd00:1::/108", 118),
        ("fd00:1::/116", 122),
        ("fd00:1::/124", 124),
    ],
)
def test_a_slice_is_a_sixty_fourth_within_limits(whole: str, length: int):
    assert service_cidrs.compute_prefix_length(ip_network(whole)) == length


def test_a_range_too_small_for_one_slice_is_refused():
    with pytest.raises(
        ServiceRangeError, match=r"10\.96\.0\.0/29 of the super cluster is too small"
    ):
        service_cidrs.compute_prefix_length(ip_network("10.96.0.0/29"))


def test_first_address_is_the_api_and_tenth_is_dns():
    slice_ = ServiceRange(ip_network("10.96.8.0/22"))
    assert (slice_.api_address, slice_.dns_address, str(slice_)) == (
        "10.96.8.1",
        "10.96.8.10",
        "10.96.8.0/22",
    )


def test_the_eleventh_address_is_the_metrics_api_in_the_narrowest_slice_too():
    slice_ = ServiceRange(ip_network("10.96.8.16/28"))
    assert slice_.network.prefixlen == 32 - service_cidrs.MIN_HOST_BITS
    service = service_cidrs.build_metrics_service("root", slice_)
    assert service["spec"]["clusterIP"] == slice_.metrics_address == "10.96.8.27"


@settings(deadline=None)
@given(uid=st.uuids().map(str), length=st.integers(16, 28))
def test_every_slice_of_a_range_is_offered_once(uid: str, length: int):
    whole = ip_network(f"10.96.0.0/{length}")
    offered = [each.network for each in service_cidrs.iterate_free_ranges(whole, uid, ())]
    assert sorted(offered) == list(
        whole.subnets(new_prefix=service_cidrs.compute_prefix_length(whole))
    )


def test_tenants_start_at_different_places():
    whole = ip_network("10.96.0.0/12")
    firsts = {
        next(service_cidrs.iterate_free_ranges(whole, f"uid-{n}", ())).network for n in range(50)
    }
    assert len(firsts) > 45


def test_the_same_tenant_starts_at_the_same_place():
    whole = ip_network("10.96.0.0/12")
    assert next(service_cidrs.iterate_free_ranges(whole, UID, ())) == next(
        service_cidrs.iterate_free_ranges(whole, UID, ())
    )


@settings(deadline=None)
@given(taken=st.lists(st.integers(0, 63), max_size=63, unique=True))
def test_taken_slices_are_never_offered(taken: list[int]):
    whole = ip_network("10.96.0.0/16")
    every = list(whole.subnets(new_prefix=22))
    offered = {
        each.network
        for each in service_cidrs.iterate_free_ranges(whole, UID, [every[n] for n in taken])
    }
    assert offered == set(every) - {every[n] for n in taken}


def test_a_small_slice_of_another_tenant_takes_the_whole_one_around_it():
    whole = ip_network("10.96.0.0/20")
    inside = ip_network("10.96.0.80/28")
    assert ip_network("10.96.0.64/26") not in {
        each.network for each in service_cidrs.iterate_free_ranges(whole, UID, [inside])
    }


@pytest.mark.parametrize(
    ("cidr", "sentence"),
    [
        ("nonsense", "is not a network"),
        ("10.96.0.1/24", "is not a network"),
        ("10.0.0.0/22", r"is not part of the super cluster's Service CIDR 10\.96\.0\.0/16"),
        ("10.96.0.0/12", "is not part"),
        ("10.0.0.0/8", "is not part"),
        ("fd00::/112", "is not part"),
        ("10.96.4.0/29", "too small"),
        ("10.96.8.0/24", "overlaps the range of another VirtualCluster. Choose another"),
        ("10.96.8.0/22", "overlaps the range of another VirtualCluster. Choose another"),
        ("10.96.16.0/21", "is too large. A tenant can have at most 1024 addresses. Choose a /22"),
        ("10.96.0.0/16", "is too large"),
    ],
)
def test_a_slice_asked_for_by_hand_is_judged(cidr: str, sentence: str):
    whole = ip_network("10.96.0.0/16")
    with pytest.raises(ServiceRangeError, match=sentence) as caught:
        service_cidrs.parse_requested_range(cidr, whole, {"root-a": ip_network("10.96.8.0/22")})
    assert "serviceCidr" in str(caught.value)
    assert "root-a" not in str(caught.value)


def test_who_has_a_slice_is_known_beside_the_message():
    whole = ip_network("10.96.0.0/16")
    with pytest.raises(service_cidrs.ServiceRangeTakenError) as caught:
        service_cidrs.parse_requested_range(
            "10.96.8.0/24", whole, {"root-a": ip_network("10.96.8.0/22")}
        )
    assert caught.value.owner == "root-a"


def test_a_free_slice_asked_for_by_hand_is_given():
    whole = ip_network("10.96.0.0/16")
    found = service_cidrs.parse_requested_range(
        "10.96.12.0/24", whole, {"root-a": ip_network("10.96.8.0/22")}
    )
    assert str(found) == "10.96.12.0/24"


def test_the_claim_can_be_read_back():
    slice_ = ServiceRange(ip_network("10.96.8.0/22"))
    claim = service_cidrs.build_api_claim(
        TENANT.root, slice_, selector={"a": "b"}, port="api", is_reached_early=True
    )
    assert service_cidrs.read_claimed_range(claim) == slice_
    assert claim["spec"]["clusterIP"] == "10.96.8.1"
    assert claim["spec"]["selector"] == {"a": "b"}
    assert [port["targetPort"] for port in claim["spec"]["ports"]] == ["api"]
    assert (
        service_cidrs.read_claimed_range(service_cidrs.build_dns_claim(TENANT.root, slice_)) is None
    )


@pytest.mark.parametrize("cidr", ["nonsense", "10.96.8.1/22", "10.96.8.0/31", ""])
def test_a_claim_that_cannot_be_read_is_none(cidr: str):
    slice_ = ServiceRange(ip_network("10.96.8.0/22"))
    claim = service_cidrs.build_api_claim(
        TENANT.root, slice_, selector={}, port="api", is_reached_early=True
    )
    claim["metadata"]["annotations"][wellknown.SERVICE_CIDR] = cidr
    assert service_cidrs.read_claimed_range(claim) is None


def test_only_a_service_in_its_tenants_root_namespace_counts():
    labels = ownership.build_owner_labels(TENANT, "")
    assert service_cidrs.is_in_root_namespace(
        {"metadata": {"namespace": TENANT.root, "labels": labels}}
    )
    assert not service_cidrs.is_in_root_namespace(
        {"metadata": {"namespace": "default", "labels": labels}}
    )
    assert not service_cidrs.is_in_root_namespace({"metadata": {"namespace": "default"}})
    other = {**labels, wellknown.VC_UID: "another"}
    assert not service_cidrs.is_in_root_namespace(
        {"metadata": {"namespace": TENANT.root, "labels": other}}
    )


@pytest.mark.parametrize("body", [{}, {"spec": {}}, {"spec": {"cidrs": []}}])
def test_a_service_cidr_without_a_range_is_refused(body):
    with pytest.raises(ServiceRangeError):
        service_cidrs.parse_super_range(body)


def test_the_first_range_counts_when_there_are_two():
    body = {"spec": {"cidrs": ["10.96.0.0/16", "fd00::/112"]}}
    assert service_cidrs.parse_super_range(body) == ip_network("10.96.0.0/16")
