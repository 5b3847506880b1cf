"""Which addresses are of a tenant's pods, and which slices name them."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from kubeio.cache.store import Entry
from syncer.rules.network.indexes.pod_addresses import MAX_ADDRESSES, PodAddresses
from tests.support.syncer.tenant_views import entry_of, object_of

ADDRESS = ipaddress.ip_address("10.244.3.4")
POD, SLICE = ("below", "p"), ("web", "s")


def pod(**status: Any) -> Entry:
    """Return a super pod."""
    return entry_of(object_of("Pod", status=status))


def tenant_slice(*found: Any) -> Entry:
    """Return a slice with addresses."""
    return entry_of(object_of("EndpointSlice", endpoints=[{"addresses": list(found)}]))


def test_a_slice_is_reported_when_a_pod_comes_moves_and_goes():
    index = PodAddresses()
    index.set_slice(SLICE, tenant_slice("10.244.3.4", "no address", 7))
    running = pod(phase="Running", podIP="10.244.3.4", podIPs=[{"ip": "10.244.3.4"}])
    assert index.set_pod(POD, running) == {SLICE}
    assert index.has(ADDRESS)
    assert not index.set_pod(POD, running)
    moved = pod(phase="Running", podIPs=[{"ip": "10.244.3.5"}, {"ip": "fd10::5"}])
    assert index.set_pod(POD, moved) == {SLICE}
    assert not index.has(ADDRESS)
    assert index.has(ipaddress.ip_address("fd10:0::5"))
    index.set_slice(SLICE, None)
    assert not index.set_pod(POD, running)
    assert not index.set_pod(POD, None)
    assert not index.has(ADDRESS)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_address_of_a_finished_pod_is_not_its_own(phase):
    """SEC-42: a network plugin gives the address to another pod."""
    index = PodAddresses()
    index.set_slice(SLICE, tenant_slice("10.244.3.4"))
    index.set_pod(POD, pod(phase="Running", podIP="10.244.3.4"))
    assert index.set_pod(POD, pod(phase=phase, podIP="10.244.3.4")) == {SLICE}
    assert not index.has(ADDRESS)


def test_an_event_without_another_address_parses_none(monkeypatch: pytest.MonkeyPatch):
    index = PodAddresses()
    status = {"podIP": "10.244.3.4", "podIPs": [{"ip": "10.244.3.4"}]}
    index.set_pod(POD, pod(phase="Pending", **status))
    monkeypatch.setattr("syncer.rules.network.indexes.pod_addresses.parse_address", None)
    assert not index.set_pod(POD, pod(phase="Running", **status))
    assert index.has(ADDRESS)


def test_an_address_in_other_words_is_the_same():
    index = PodAddresses()
    index.set_slice(SLICE, tenant_slice("fd10::5"))
    assert index.set_pod(POD, pod(podIP="fd10:0::5")) == {SLICE}
    assert not index.set_pod(POD, pod(podIP="fd10::5"))
    assert index.has(ipaddress.ip_address("fd10::5"))


def test_two_pods_of_one_address():
    index = PodAddresses()
    for name in ("a", "b"):
        index.set_pod(("below", name), pod(podIP="10.244.3.4"))
    index.set_pod(("below", "a"), None)
    assert index.has(ADDRESS)


@pytest.mark.parametrize("status", [{"podIP": 7}, {"podIPs": "x"}, {"podIP": "x"}, {}])
def test_a_malformed_status_has_no_address(status):
    index = PodAddresses()
    assert not index.set_pod(POD, pod(**status))
    assert not index.has(ADDRESS)


def test_a_slice_is_indexed_up_to_its_limit():
    index = PodAddresses()
    texts = [str(ipaddress.ip_address(n)) for n in range(2**24, 2**24 + MAX_ADDRESSES)]
    index.set_slice(SLICE, tenant_slice(*texts, "10.244.3.4"))
    assert not index.set_pod(POD, pod(podIP="10.244.3.4"))
    assert index.set_pod(POD, pod(podIP=texts[0])) == {SLICE}
