"""Index of the addresses of a tenant's super pods, and of the slices that name them.

Pure. Owns the index. Must not enqueue keys.

Hazard: the address of a finished pod must not count, because the network plugin may give it to
another tenant's pod. The finished pod may stay for days.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import islice

import msgspec

from kubeio.cache.store import Entry, StoreKey
from syncer.model.super_cidrs import CidrAddress
from syncer.model.unstructured import as_mappings, as_strings
from tenancy import wellknown

MAX_ADDRESSES = 1000
"""Maximum number of addresses in one slice: as many as the controllers of Kubernetes write into
one."""


class _PodIp(msgspec.Struct):
    ip: str = ""


class _PodStatus(msgspec.Struct, rename={"pod_ip": "podIP", "pod_ips": "podIPs"}):
    phase: str = ""
    pod_ip: str = ""
    pod_ips: list[_PodIp] | None = None


class _PlacedSpec(msgspec.Struct, rename={"node_name": "nodeName"}):
    node_name: str = ""


class _Pod(msgspec.Struct):
    spec: _PlacedSpec | None = None
    status: _PodStatus | None = None


_DECODER = msgspec.json.Decoder(_Pod)


def parse_address(text: object) -> CidrAddress | None:
    """Return an address, or None if the text is none."""
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None


class PodAddresses:
    """Addresses of one tenant's super pods in one super cluster."""

    def __init__(self, on_address: Callable[[str, CidrAddress], object] | None = None) -> None:
        """Start empty. `on_address` gets the node and each new address of a running pod."""
        self._on_address = on_address
        self._texts_by_pod: dict[StoreKey, tuple[str, ...]] = {}
        self._pods: defaultdict[CidrAddress, set[StoreKey]] = defaultdict(set)
        self._addresses_by_slice: dict[StoreKey, frozenset[CidrAddress]] = {}
        self._slices: defaultdict[CidrAddress, set[StoreKey]] = defaultdict(set)

    def has(self, address: CidrAddress) -> bool:
        """Return whether a running pod of the tenant has an address."""
        return address in self._pods

    def set_pod(self, pod: StoreKey, entry: Entry | None) -> Collection[StoreKey]:
        """Update the index with a super pod. Return the slices that name a changed address."""
        node, now = _read_pod(entry) if entry is not None else ("", ())
        before = self._texts_by_pod.get(pod, ())
        if now == before:  # most events of a pod: its addresses are not parsed
            return ()
        self._texts_by_pod.pop(pod, None)
        if now:
            self._texts_by_pod[pod] = now
        addresses = _parse_texts(now)
        changed = _move_user(self._pods, pod, _parse_texts(before), addresses)
        if self._on_address is not None:
            for address in addresses.intersection(changed):
                self._on_address(node, address)
        return {each for address in changed for each in self._slices.get(address, ())}

    def set_slice(self, tenant_slice: StoreKey, entry: Entry | None) -> None:
        """Update the index with an EndpointSlice of the tenant."""
        now = frozenset(_read_slice_addresses(entry)) if entry is not None else frozenset()
        before = self._addresses_by_slice.pop(tenant_slice, frozenset())
        if now:
            self._addresses_by_slice[tenant_slice] = now
        _move_user(self._slices, tenant_slice, before, now)


def _move_user(
    users: defaultdict[CidrAddress, set[StoreKey]],
    user: StoreKey,
    before: frozenset[CidrAddress],
    now: frozenset[CidrAddress],
) -> Collection[CidrAddress]:
    """Move a user to other addresses. Return the added and removed ones."""
    for address in before - now:
        users[address].discard(user)
        if not users[address]:
            del users[address]
    for address in now - before:
        users[address].add(user)
    return before ^ now


def _read_pod(entry: Entry) -> tuple[str, tuple[str, ...]]:
    """Return the node and the addresses of a pod that has not ended, as its status has them."""
    try:
        pod = _DECODER.decode(entry.body)
    except msgspec.DecodeError:
        return "", ()
    spec, status = pod.spec or _PlacedSpec(), pod.status or _PodStatus()
    if status.phase in wellknown.TERMINAL_PHASES:
        return "", ()
    texts = (status.pod_ip, *(each.ip for each in status.pod_ips or ()))
    return spec.node_name, tuple(dict.fromkeys(filter(None, texts)))


def _parse_texts(texts: tuple[str, ...]) -> frozenset[CidrAddress]:
    return frozenset(each for each in map(parse_address, texts) if each is not None)


def _read_slice_addresses(tenant_slice: Entry) -> Iterator[CidrAddress]:
    """Yield the addresses of a slice, up to the number that a synced slice may have."""
    endpoints = as_mappings(tenant_slice.decode().get("endpoints"))
    texts = (text for each in endpoints for text in as_strings(each.get("addresses")))
    for text in islice(texts, MAX_ADDRESSES):
        address = parse_address(text)
        if address is not None:
            yield address
