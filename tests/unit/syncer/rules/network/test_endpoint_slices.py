"""EndpointSlices: which go down, and where they may point."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse_entry
from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.model.super_cidrs import NO_CIDRS, SuperCidrs
from syncer.model.tenant_view import TenantView
from syncer.rules.network import endpoint_slices, forbidden_addresses
from syncer.rules.network.endpoint_slices import (
    MANAGED_BY,
    SELECTOR_CONTROLLER,
    SERVICE_NAME,
    TWIN_MANAGED_BY,
)
from tenancy import wellknown
from tenancy.addresses import parse_networks
from tests.support.syncer.tenant_views import RANGES, add, as_live, network_view, object_of, policy


def slice_of(*addresses: Any, **fields: Any) -> dict[str, Any]:
    """Return a slice of a Service without selector."""
    metadata = {"labels": {SERVICE_NAME: "away", "team": "a"}}
    endpoints = [{"addresses": list(addresses), "conditions": {"ready": True}}]
    body = {"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}]}
    return object_of("EndpointSlice", metadata=metadata, **{**body, **fields})


def test_a_slice_goes_down_under_our_management():
    twin = endpoint_slices.build_endpoint_slice(slice_of("198.51.100.7"), network_view())
    labels = twin["metadata"]["labels"]
    assert (labels[SERVICE_NAME], labels[MANAGED_BY], labels["team"]) == (
        "away",
        TWIN_MANAGED_BY,
        "a",
    )
    assert twin["endpoints"][0]["addresses"] == ["198.51.100.7"]
    assert endpoint_slices.build_change(as_live(twin), twin) is None
    pointed = [{**twin["endpoints"][0], "targetRef": {"kind": "Pod", "name": "p"}}]
    assert endpoint_slices.build_change(as_live(twin, endpoints=pointed), twin) is None
    moved = as_live(twin, endpoints=[])
    assert endpoint_slices.build_change(moved, twin) is not None


def test_nodes_are_named_only_when_the_tenant_has_them_and_objects_never():
    view = network_view()
    add(view.super_stores["Node"], "node-1")
    add(view.stores["Node"], "node-1", annotations={wellknown.UID: "node-1-uid"})
    add(view.super_stores["Node"], "node-2")
    add(view.stores["Node"], "node-2")  # of the tenant's own making
    target = {"kind": "Pod", "name": "p", "namespace": "web", "uid": "u"}
    endpoints = [
        {"addresses": ["198.51.100.7"], "nodeName": name, "targetRef": target}
        for name in ("node-1", "node-2", ["node-1"])
    ]
    twin = endpoint_slices.build_endpoint_slice(slice_of(endpoints=endpoints), view)
    assert [each.get("nodeName") for each in twin["endpoints"]] == ["node-1", None, None]
    assert "targetRef" not in str(twin)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "64:ff9b:1::1",
        "64:ff9b::a9fe:a9fe",
        "0.0.0.0",  # noqa: S104 - an address, no one binds to it
        "224.0.0.1",
        "192.0.2.7",
        "10.96.0.1",
        "10.96.8.20",
        "203.0.113.9",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "::ffff:127.0.0.1",
        "::ffff:192.0.2.7",
        "64:ff9b::a60:1",
        "2002:c000:207::1",
        "::7f00:1",
        "example.org",
        "010.0.0.1",
        "",
        7,
    ],
)
def test_addresses_that_take_the_slice_away(address):
    view = network_view(policy=policy(network={"superRanges": ["203.0.113.0/24"]}))
    with pytest.raises(ForbiddenObjectError) as refused:
        endpoint_slices.build_endpoint_slice(slice_of("198.51.100.7", address), view)
    (problem,) = refused.value.problems
    assert problem.rule == "endpoint-address"
    assert problem.path == "endpoints[0].addresses[1]"


@pytest.mark.parametrize("address", ["198.51.100.7", "10.244.3.4", "10.1.2.3", "2001:db8::1"])
def test_any_other_address_is_fine(address):
    view = network_view(is_own_pod=lambda found: str(found) == "10.244.3.4")
    twin = endpoint_slices.build_endpoint_slice(slice_of(address), view)
    assert twin["endpoints"][0]["addresses"] == [address]
    assert not endpoint_slices.find_adjustments(slice_of(address), view)


OWN = "10.244.3.4"
FOREIGN = "10.244.3.5"


def owning(**fields: Any) -> TenantView:
    """Return the view of a tenant with one pod."""
    return network_view(is_own_pod=lambda found: str(found) == OWN, **fields)


@pytest.mark.parametrize("address", [FOREIGN, f"::ffff:{FOREIGN}", f"::ffff:{OWN}"])
def test_the_address_of_a_foreign_pod_is_left_out(address):
    """SEC-42: also by its IPv6 form."""
    tenant_slice = slice_of(address, OWN, "198.51.100.7")
    twin = endpoint_slices.build_endpoint_slice(tenant_slice, owning())
    assert twin["endpoints"][0]["addresses"] == [OWN, "198.51.100.7"]
    (problem,) = endpoint_slices.find_adjustments(tenant_slice, owning())
    assert (problem.rule, problem.path) == ("endpoint-address", "endpoints[0].addresses[0]")
    assert "spec.network.endpoints" in problem.text


def test_a_slice_of_foreign_pods_alone_is_taken_away():
    with pytest.raises(ForbiddenObjectError, match=r"spec\.network\.endpoints"):
        endpoint_slices.build_endpoint_slice(slice_of(FOREIGN), owning())
    endpoints = [{"addresses": [FOREIGN]}, {"addresses": [OWN]}]
    twin = endpoint_slices.build_endpoint_slice(slice_of(endpoints=endpoints), owning())
    assert twin["endpoints"] == [{"addresses": [OWN]}]


@pytest.mark.parametrize(
    ("mode", "address", "passes"),
    [
        ("OwnPods", OWN, True),
        ("OwnPods", FOREIGN, False),
        ("OwnPods", "198.51.100.7", True),
        ("Allow", FOREIGN, True),
        ("Allow", "10.96.0.1", False),
        ("Refuse", OWN, False),
        ("Refuse", "198.51.100.7", False),
    ],
)
def test_the_policy_decides_on_endpoints(mode, address, passes):
    view = owning(policy=policy(network={"endpoints": mode}))
    if passes:
        assert endpoint_slices.build_endpoint_slice(slice_of(address), view)
    else:
        with pytest.raises(ForbiddenObjectError):
            endpoint_slices.build_endpoint_slice(slice_of(address), view)


@pytest.mark.parametrize(
    ("address", "passes"), [("10.9.9.9", False), (OWN, True), ("8.8.8.8", True)]
)
def test_without_known_pod_ranges_private_addresses_are_of_pods(address, passes):
    view = owning(ranges=NO_CIDRS)
    if passes:
        assert endpoint_slices.build_endpoint_slice(slice_of(address), view)
    else:
        with pytest.raises(ForbiddenObjectError):
            endpoint_slices.build_endpoint_slice(slice_of(address), view)


def test_a_pod_outside_of_all_ranges_makes_private_addresses_those_of_pods():
    known = SuperCidrs(pods=parse_networks(("10.244.0.0/16",)))
    assert endpoint_slices.build_endpoint_slice(slice_of("10.9.9.9"), owning(ranges=known))
    incomplete = replace(known, stray_pods=parse_networks(("10.8.0.1",)))
    with pytest.raises(ForbiddenObjectError):
        endpoint_slices.build_endpoint_slice(slice_of("10.9.9.9"), owning(ranges=incomplete))


def test_own_pods_pass_in_the_listed_ranges():
    """Otherwise `superRanges` with the range of pods would refuse the tenant's own."""
    view = owning(policy=policy(network={"superRanges": ["10.244.0.0/16"]}))
    assert endpoint_slices.build_endpoint_slice(slice_of(OWN), view)
    with pytest.raises(ForbiddenObjectError):
        endpoint_slices.build_endpoint_slice(slice_of(FOREIGN), view)


@given(st.ip_addresses())
def test_no_address_of_the_super_cluster_passes_in_any_clothes(address):
    view = network_view()
    ranges = view.get_super_cidrs()
    forms = [address]
    if address.version == 4:
        forms.append(ipaddress.IPv6Address(f"::ffff:{address}"))
        forms.append(ipaddress.IPv6Address((0x64FF9B << 96) | int(address)))
    is_theirs = any(
        address.version == net.version and address in net
        for net in (*ranges.nodes, *ranges.services)
    )
    is_local = address.is_loopback or address.is_link_local or address.is_unspecified
    for form in forms:
        reason = forbidden_addresses.find_problem(
            str(form), forbidden_addresses.list_super_cidrs(view, ranges)
        )
        assert reason or not (is_theirs or is_local)


@given(st.sampled_from(["10.96.0.0/16", "192.0.2.7/32", "127.0.0.0/8"]), st.integers(0, 2**24))
def test_every_address_of_a_forbidden_range_is_refused(cidr: str, number: int):
    network = ipaddress.IPv4Network(cidr)
    taken = forbidden_addresses.list_super_cidrs(network_view(), RANGES)
    address = network[number % network.num_addresses]
    for form in (address, f"::ffff:{address}"):
        assert forbidden_addresses.find_problem(str(form), taken)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"addressType": "FQDN"}, "endpoint-address"),
        ({"endpoints": "all"}, "malformed"),
        ({"endpoints": ["all"]}, "malformed"),
        ({"endpoints": [{"addresses": "198.51.100.7"}]}, "malformed"),
        ({"endpoints": [{"addresses": [{"ip": "198.51.100.7"}]}]}, "malformed"),
        ({"ports": {"port": 80}}, "malformed"),
        ({"surprise": "x"}, "unknown-field"),
    ],
)
def test_slices_that_are_rejected_and_leave_what_went_down_before(fields, rule):
    with pytest.raises(RejectedError) as rejected:
        endpoint_slices.build_endpoint_slice(slice_of("198.51.100.7", **fields), network_view())
    assert {problem.rule for problem in rejected.value.problems} == {rule}
    assert not rejected.value.problems[0].path.startswith(".")
    assert not isinstance(rejected.value, ForbiddenObjectError)


def test_a_slice_has_a_limit_and_the_addresses_below_are_looked_up_once():
    calls = []
    view = network_view()
    ranges = view.get_super_cidrs()
    object.__setattr__(view, "get_super_cidrs", lambda: calls.append(1) or ranges)
    most = [f"198.51.{number // 250}.{number % 250}" for number in range(1000)]
    twin = endpoint_slices.build_endpoint_slice(slice_of(*most), view)
    assert len(twin["endpoints"][0]["addresses"]) == 1000
    assert len(calls) == 1
    with pytest.raises(RejectedError) as rejected:
        endpoint_slices.build_endpoint_slice(slice_of(*most, "198.51.99.1"), view)
    assert [problem.rule for problem in rejected.value.problems] == ["too-large"]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("namespace", "labels", "wanted"),
    [
        ("web", {SERVICE_NAME: "away"}, True),
        ("web", {SERVICE_NAME: "away", MANAGED_BY: "endpointslicemirroring-controller"}, True),
        ("web", {SERVICE_NAME: "away", MANAGED_BY: SELECTOR_CONTROLLER}, False),
        ("web", {}, False),
        ("default", {SERVICE_NAME: "kubernetes"}, False),
        ("kube-system", {SERVICE_NAME: "kube-dns"}, False),
    ],
)
def test_which_slices_take_part(namespace, labels, wanted):
    metadata = {"name": "x", "namespace": namespace, "uid": "u", "labels": labels}
    entry = parse_entry(orjson.dumps({"metadata": metadata}))
    assert endpoint_slices.is_wanted(entry, network_view()) is wanted
