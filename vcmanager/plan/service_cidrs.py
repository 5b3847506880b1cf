"""Allocation of a tenant's service range within the super cluster's service range.

Owns the arithmetic and the two Services that claim a range. Pure. Hazard: two tenants in one range
would answer each other's calls. Only the super cluster's allocator decides the owner, by the
request for a range's first address. Ranges that a VirtualCluster requests by hand are also compared
with all other ranges.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from tenancy import names, wellknown

ServiceNetwork = IPv4Network | IPv6Network
Manifest = dict[str, Any]

RANGE_EXTRA_BITS = 6
"""A tenant's service range is a sixty-fourth of the whole, within the two limits that follow."""
MAX_HOST_BITS = 10
MIN_HOST_BITS = 4
API_OFFSET = 1
DNS_OFFSET = 10
METRICS_OFFSET = 11

API_SERVICE = "kubernetes"
DNS_SERVICE = "kube-dns"
METRICS_SERVICE = "metrics-server"
METRICS_PORT = 10250
"""Port of the pod. A port below 1024 would need a capability."""


class ServiceRangeError(ValueError):
    """No service range for this tenant. The message has the reason and what to change."""


class ServiceRangeTakenError(ServiceRangeError):
    """Another tenant has a part of the service range. The message must not name that tenant."""

    def __init__(self, message: str, owner: str) -> None:
        super().__init__(message)
        self.owner = owner
        """The other tenant's root namespace."""


@dataclass(frozen=True, slots=True)
class ServiceRange:
    """Addresses of one tenant's Services."""

    network: ServiceNetwork

    @property
    def api_address(self) -> str:
        """Return the address of the tenant's API inside the super cluster: the range's first."""
        return str(self.network[API_OFFSET])

    @property
    def dns_address(self) -> str:
        """Return the address of the tenant's DNS: the range's tenth."""
        return str(self.network[DNS_OFFSET])

    @property
    def metrics_address(self) -> str:
        """Return the address of the tenant's metrics API: the range's eleventh."""
        return str(self.network[METRICS_OFFSET])

    def __str__(self) -> str:
        """Return the slice as a CIDR."""
        return str(self.network)


def parse_super_range(service_cidr: Mapping[str, Any]) -> ServiceNetwork:
    """Return the super cluster's service range from its ServiceCIDR, the first if dual-stack."""
    cidrs = (service_cidr.get("spec") or {}).get("cidrs") or ()
    if not cidrs:
        raise ServiceRangeError("the super cluster's ServiceCIDR has no range")
    return ip_network(cidrs[0])


def compute_prefix_length(whole: ServiceNetwork) -> int:
    """Return the prefix length of the slices of a range."""
    host_bits = whole.max_prefixlen - whole.prefixlen
    if host_bits < MIN_HOST_BITS:
        raise ServiceRangeError(
            f"The Service CIDR {whole} of the super cluster is too small for tenants. A service"
            f" range needs at least {1 << MIN_HOST_BITS} addresses."
        )
    wanted = min(max(host_bits - RANGE_EXTRA_BITS, MIN_HOST_BITS), MAX_HOST_BITS)
    return whole.max_prefixlen - min(wanted, host_bits)


def iterate_free_ranges(
    whole: ServiceNetwork, uid: str, taken: Iterable[ServiceNetwork]
) -> Iterator[ServiceRange]:
    """Yield the free slices of a range, each once, from a place that depends on the tenant's UID.

    Tenants start at different places, so that claims rarely meet.
    """
    length = compute_prefix_length(whole)
    count = 1 << (length - whole.prefixlen)
    size = 1 << (whole.max_prefixlen - length)
    start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big") % count
    others = [network for network in taken if network.version == whole.version]
    for step in range(count):
        base = int(whole.network_address) + ((start + step) % count) * size
        network = ip_network((base, length))
        if not any(network.overlaps(other) for other in others):
            yield ServiceRange(network)


def parse_requested_range(
    cidr: str, whole: ServiceNetwork, taken: Mapping[str, ServiceNetwork]
) -> ServiceRange:
    """Return the service range that a VirtualCluster requests by hand.

    `taken` maps owners to their ranges. Raises SliceProblemError.
    """
    try:
        network = ip_network(cidr)
    except ValueError as problem:
        raise ServiceRangeError(
            f"spec.serviceCidr {cidr!r} is not a network: {problem}. Write it like"
            f" {next(iter(iterate_free_ranges(whole, cidr, ())))}."
        ) from None
    if network.version != whole.version or not network.subnet_of(whole):  # type: ignore[arg-type]
        raise ServiceRangeError(
            f"spec.serviceCidr {network} is not part of the super cluster's Service CIDR {whole}."
            " Choose a range inside it, or leave the field out."
        )
    if network.max_prefixlen - network.prefixlen < MIN_HOST_BITS:
        raise ServiceRangeError(
            f"spec.serviceCidr {network} is too small. A tenant needs at least"
            f" {1 << MIN_HOST_BITS} addresses."
        )
    if network.max_prefixlen - network.prefixlen > MAX_HOST_BITS:
        raise ServiceRangeError(
            f"spec.serviceCidr {network} is too large. A tenant can have at most"
            f" {1 << MAX_HOST_BITS} addresses. Choose a /{network.max_prefixlen - MAX_HOST_BITS}"
            " or a smaller part of it."
        )
    for owner, other in sorted(taken.items()):
        if network.version == other.version and network.overlaps(other):
            raise ServiceRangeTakenError(
                f"spec.serviceCidr {network} overlaps the range of another VirtualCluster. Choose"
                " another range, or leave the field out.",
                owner,
            )
    return ServiceRange(network)


def read_claimed_range(service: Mapping[str, Any]) -> ServiceRange | None:
    """Return the slice that a Service claims, or None when it is no claim that can be read."""
    annotations = service["metadata"].get("annotations") or {}
    try:
        network = ip_network(annotations.get(wellknown.SERVICE_CIDR, ""))
    except ValueError:
        return None
    return ServiceRange(network) if network.num_addresses >= 1 << MIN_HOST_BITS else None


def is_in_root_namespace(service: Mapping[str, Any]) -> bool:
    """Return whether a Service is in the root namespace of the tenant that its labels name.

    Any user may write these labels on a Service of their own, which then claims nothing.
    """
    metadata = service["metadata"]
    labels = metadata.get("labels") or {}
    who = [
        labels.get(mark, "")
        for mark in (wellknown.VC_NAMESPACE, wellknown.VC_NAME, wellknown.VC_UID)
    ]
    try:
        return bool(metadata.get("namespace") == names.build_root_namespace(*who))
    except names.InvalidNameError:
        return False


def build_api_claim(
    root: str,
    slice_: ServiceRange,
    *,
    selector: Mapping[str, str],
    port: int | str,
    is_reached_early: bool,
) -> Manifest:
    """Return the Service that claims a slice: its first address, selecting the tenant's API."""
    ports = [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}]
    claim = _build_provided_service(root, API_SERVICE, slice_.api_address, selector, ports)
    claim["metadata"]["annotations"] = {wellknown.SERVICE_CIDR: str(slice_)}
    if is_reached_early:
        claim["spec"]["publishNotReadyAddresses"] = True
    return claim


def build_dns_claim(root: str, slice_: ServiceRange) -> Manifest:
    """Return the Service with a slice's tenth address, selecting the tenant's DNS."""
    ports = [
        {"name": "dns", "port": 53, "targetPort": 1053, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "targetPort": 1053, "protocol": "TCP"},
    ]
    return _build_provided_service(
        root, DNS_SERVICE, slice_.dns_address, {wellknown.COMPONENT: "coredns"}, ports
    )


def build_metrics_service(root: str, slice_: ServiceRange) -> Manifest:
    """Return the Service with a range's eleventh address, selecting the tenant's metrics-server.

    It is no part of the claim. A tenant works without it if another Service has the eleventh
    address.
    """
    ports = [{"name": "https", "port": 443, "targetPort": METRICS_PORT, "protocol": "TCP"}]
    selector = {wellknown.COMPONENT: "metrics-server"}
    return _build_provided_service(root, METRICS_SERVICE, slice_.metrics_address, selector, ports)


def _build_provided_service(
    root: str, name: str, address: str, selector: Mapping[str, str], ports: list[dict[str, Any]]
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": root},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "selector": dict(selector),
            "ports": ports,
        },
    }
