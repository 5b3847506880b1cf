"""Address management of an additional network, limited to the tenant's addresses.

Pure. Owns the check and the rewriting of the `ipam` part for each IPAM plugin. Must not know where
the tenant's addresses come from.

Hazard: each address that a pod can get must be in the tenant's part of a range. Otherwise two
tenants use one address.
"""

from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from kubeio import Object
from syncer.rules.network.attachments.cni_config import refuse
from syncer.rules.network.attachments.segments import (
    RANGE_RULE,
    AddressRange,
    Segment,
    find_range,
    owns_address,
)
from tenancy.policy.network_attachments import RangeNetwork


def build_ipam(ipam: Mapping[str, Any], segment: Segment, path: str) -> Object:
    """Return the IPAM part for the super cluster. Raises RejectedError."""
    if not ipam:
        return {}
    if not segment.ranges:
        text = f"is not offered, because device {segment.device} has no addresses. Remove it"
        raise refuse(RANGE_RULE, path, text)
    return _BUILDERS[str(ipam["type"])](ipam, segment, path)


def _build_whereabouts(ipam: Mapping[str, Any], segment: Segment, path: str) -> Object:
    """Return the part for Whereabouts, whose pool has a name of the tenant's own."""
    network = _choose_network(ipam, segment, path)
    found = find_range(segment, network)
    if found is None:
        text = f"is not offered. Use a part of {_format_ranges(segment)}"
        raise refuse(RANGE_RULE, f"{path}.range", text)
    first, last = _clamp(ipam, network, found, path)
    gateway = ipam.get("gateway")
    if gateway is not None:
        _check_gateway(gateway, found, f"{path}.gateway")
    _check_routes(ipam, found, path)
    kept = {key: ipam[key] for key in ("exclude", "gateway", "routes") if key in ipam}
    return {
        "type": "whereabouts",
        "range": str(network),
        "range_start": str(first),
        "range_end": str(last),
        "network_name": segment.network_name,
        **kept,
    }


def _choose_network(ipam: Mapping[str, Any], segment: Segment, path: str) -> RangeNetwork:
    if "range" in ipam:
        return ip_network(ipam["range"], strict=False)
    if len(segment.ranges) > 1:
        text = f"must name one of {_format_ranges(segment)}. Add it"
        raise refuse(RANGE_RULE, f"{path}.range", text)
    return segment.ranges[0].whole


def _clamp(
    ipam: Mapping[str, Any], network: RangeNetwork, found: AddressRange, path: str
) -> tuple[Any, Any]:
    """Return the first and the last address. The tenant's wish is cut to its part of the range."""
    lows = [int(found.own.network_address), int(network.network_address) + 1]
    highs = [int(found.own.broadcast_address), int(network.broadcast_address) - 1]
    for key, limits in (("range_start", lows), ("range_end", highs)):
        if key in ipam:
            address = ip_address(ipam[key])
            if address.version != network.version:
                raise refuse(RANGE_RULE, f"{path}.{key}", f"is no address of {network}. Correct it")
            limits.append(int(address))
    low, high = max(lows), min(highs)
    if low > high:
        text = f"has none of your addresses. Use a part of {found.own}"
        raise refuse(RANGE_RULE, f"{path}.range", text)
    kind = type(network.network_address)
    return kind(low), kind(high)


def _build_static(ipam: Mapping[str, Any], segment: Segment, path: str) -> Object:
    """Return the part for static addresses. Without any, the annotation of a pod names them."""
    for item in ipam.get("addresses") or ():
        if not owns_address(segment, item["address"]):
            text = f"{item['address']} is not yours. Use an address of {_format_own(segment)}"
            raise refuse(RANGE_RULE, f"{path}.addresses", text)
        found = find_range(segment, ip_network(item["address"].partition("/")[0]))
        if "gateway" in item and found is not None:
            _check_gateway(item["gateway"], found, f"{path}.addresses")
    for found in segment.ranges[:1]:
        _check_routes(ipam, found, path)
    return {key: ipam[key] for key in ("type", "addresses", "routes") if key in ipam}


def _check_routes(ipam: Mapping[str, Any], found: AddressRange, path: str) -> None:
    for route in ipam.get("routes") or ():
        if "gw" in route:
            _check_gateway(route["gw"], found, f"{path}.routes")


def _check_gateway(text: str, found: AddressRange, path: str) -> None:
    address = ip_address(text)
    if address.version != found.whole.version or address not in found.whole:
        raise refuse(RANGE_RULE, path, f"{text} is no address of {found.whole}. Correct it")


def _format_ranges(segment: Segment) -> str:
    return ", ".join(str(each.whole) for each in segment.ranges)


def _format_own(segment: Segment) -> str:
    return ", ".join(str(each.own) for each in segment.ranges)


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any], Segment, str], Object]] = {
    "static": _build_static,
    "whereabouts": _build_whereabouts,
}
