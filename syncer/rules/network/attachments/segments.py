"""A tenant's share of an additional network: its VLANs and its addresses.

Pure. Owns the division of ranges and of pools of VLANs among tenants (docs/adr/0046). A tenant's
service range is a part of the super cluster's service range, and no other tenant has it. The share
is the same part of the network: the same binary digits, after the digits of the whole. It is fixed
as long as the tenant exists, and nothing needs to be recorded.

Hazard: the share must be computed from the one service range that all tenants have parts of.
Otherwise two shares overlap.
"""

import hashlib
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, NamedTuple

from syncer.model.rejections import ForbiddenObjectError, RejectionProblem
from syncer.model.super_cidrs import CidrSet
from syncer.model.tenant_view import ServiceCidr, TenantView
from syncer.rules.network.attachments.cni_config import CniConfig, refuse
from tenancy.policy.network_attachments import (
    UNTAGGED,
    AttachmentDevice,
    RangeNetwork,
    list_networks,
    list_ranges,
    list_shared_vlans,
    parse_vlans,
)

DEVICE_RULE = "network-device"
VLAN_RULE = "network-vlan"
RANGE_RULE = "network-range"
OFFER_RULE = "network-attachments"
_NAME_DIGITS = 20


class TenantShare(NamedTuple):
    """The position of a tenant among all tenants."""

    position: int
    bits: int
    """Number of binary digits of the position. There is room for two to this power tenants."""


class AddressRange(NamedTuple):
    """Addresses of a tenant in one range of a device."""

    whole: RangeNetwork
    """The range, for the length of the network and for gateways."""
    own: RangeNetwork
    """The part from which the tenant's pods get addresses."""


class Segment(NamedTuple):
    """One VLAN of a device, as a tenant may use it."""

    device: str
    vlan: int
    """VLAN in the super cluster."""
    network_name: str
    """Name of the address pools of Whereabouts. Tenants never have the same."""
    ranges: Sequence[AddressRange]


def check_offer(view: TenantView, path: str) -> None:
    """Raise ForbiddenObjectError if the policy offers no additional networks."""
    attachments = view.policy.network.attachments
    if not attachments.is_offered:
        text = (
            "is not offered to this cluster. Ask your platform administrator to set"
            " network.attachments of the TenantPolicy"
        )
        raise ForbiddenObjectError(RejectionProblem(OFFER_RULE, path, text))
    if attachments.conflict:
        text = (
            "cannot be offered, because two policies divide it differently. Contact your platform"
            " administrator"
        )
        raise ForbiddenObjectError(RejectionProblem(OFFER_RULE, path, text))


def compute_share(view: TenantView) -> TenantShare:
    """Return the position of a tenant. Raises RejectedError while it is not known."""
    whole = view.get_super_service_range()
    own: ServiceCidr = view.service_range
    if whole is None or whole.version != own.version or not _is_inside(own, whole):
        text = "cannot be shared out to this cluster yet. Contact your platform administrator"
        raise refuse(OFFER_RULE, "spec.config", text)
    bits = own.prefixlen - whole.prefixlen
    size = own.max_prefixlen - own.prefixlen
    return TenantShare((int(own.network_address) - int(whole.network_address)) >> size, bits)


def carve_network(whole: RangeNetwork, share: TenantShare) -> RangeNetwork | None:
    """Return the tenant's part of a range. None if the range is too small for all tenants."""
    length = whole.prefixlen + share.bits
    if length > whole.max_prefixlen:
        return None
    first = int(whole.network_address) + (share.position << (whole.max_prefixlen - length))
    network = IPv4Network if whole.version == 4 else IPv6Network
    return network((first, length))


def list_own_vlans(device: AttachmentDevice, share: TenantShare) -> range:
    """Return the VLANs that the tenant alone has on a device. Empty if there are too few.

    Both ends are rounded down from the same fraction of the pool. Otherwise the VLANs of tenants
    with service ranges of different sizes overlap.
    """
    pool = parse_vlans(device.tenant_vlans)
    if len(pool) < 1 << share.bits:
        return pool[:0]
    first = share.position * len(pool) >> share.bits
    last = (share.position + 1) * len(pool) >> share.bits
    return pool[first:last]


def find_segment(config: CniConfig, view: TenantView, path: str) -> Segment:
    """Return the segment that a configuration names. Raises RejectedError."""
    attachments = view.policy.network.attachments
    name = config.main[config.plugin.device_key]
    where = f"{path}.{config.plugin.device_key}"
    device = attachments.get_device(name)
    if device is None:
        listed = ", ".join(sorted(each.name for each in attachments.devices)) or "none"
        raise refuse(DEVICE_RULE, where, f"is not offered. Use one of the devices: {listed}")
    asked = config.main.get(config.plugin.vlan_key, UNTAGGED) if config.plugin.vlan_key else 0
    return build_segment(device, asked, view, path=path, tags=bool(config.plugin.vlan_key))


def build_segment(
    device: AttachmentDevice, asked: int, view: TenantView, *, path: str, tags: bool = True
) -> Segment:
    """Return the segment of a VLAN that the tenant names. Raises RejectedError.

    `tags` is whether the plugin can tag frames.
    """
    share = compute_share(view)
    vlan = _choose_vlan(device, asked, share, path=path, tags=tags)
    return Segment(
        device=device.name,
        vlan=vlan,
        network_name=build_network_name(view.tenant.uid, device.name, vlan),
        ranges=_list_ranges(device, share, view, path),
    )


def _choose_vlan(
    device: AttachmentDevice, asked: int, share: TenantShare, *, path: str, tags: bool
) -> int:
    if not device.is_divided:
        if asked not in list_shared_vlans(device):
            text = (
                f"names VLAN {asked}, which is not offered on device {device.name}. Use one of"
                f" {_format_vlans(device)}"
            )
            raise refuse(VLAN_RULE, path, text)
        return asked
    if not tags:
        text = f"is a plugin without VLANs, and device {device.name} needs one. Use bridge or vlan"
        raise refuse(VLAN_RULE, f"{path}.type", text)
    own = list_own_vlans(device, share)
    if not own:
        text = (
            f"has too few VLANs on device {device.name} for all clusters. Ask your platform"
            f" administrator to offer at least {1 << share.bits}"
        )
        raise refuse(VLAN_RULE, path, text)
    if not 0 <= asked < len(own):
        text = f"names VLAN {asked}. Your VLANs on device {device.name} are 0 to {len(own) - 1}"
        raise refuse(VLAN_RULE, path, f"{text}. Use one of them")
    return own[asked]


def _format_vlans(device: AttachmentDevice) -> str:
    return ", ".join(device.vlans) or f"{UNTAGGED}, which is untagged"


def _list_ranges(
    device: AttachmentDevice, share: TenantShare, view: TenantView, path: str
) -> list[AddressRange]:
    taken = _build_taken(view)
    found = []
    for whole in list_ranges(device):
        own = whole if device.is_divided else carve_network(whole, share)
        if own is None or taken.count_overlapping(whole):
            why = "is too small for all clusters" if own is None else "is used by the platform"
            text = f"cannot have addresses: the range {whole} {why}. Contact your platform"
            raise refuse(RANGE_RULE, path, f"{text} administrator")
        found.append(AddressRange(whole, own))
    return found


def _build_taken(view: TenantView) -> CidrSet:
    """Return the networks of the super cluster itself. A pod in them could be taken for another."""
    ranges = view.get_super_cidrs()
    listed = list_networks(view.policy.network.super_ranges)
    return CidrSet((*ranges.nodes, *ranges.pods, *ranges.services, *listed))


def build_network_name(uid: str, device: str, vlan: int) -> str:
    """Return the name of the address pools of one tenant on one VLAN."""
    digest = hashlib.sha256(f"{uid}/{device}/{vlan}".encode()).hexdigest()
    return f"vc-{digest[:_NAME_DIGITS]}"


def find_range(segment: Segment, network: RangeNetwork) -> AddressRange | None:
    """Return the range of a segment that contains a network, or None."""
    return next((each for each in segment.ranges if _is_inside(network, each.whole)), None)


def owns_address(segment: Segment, text: Any) -> bool:
    """Return whether an address, with or without a length, is in the tenant's part of a segment.

    The length must not be shorter than that of the range.
    """
    address, _, length = str(text).partition("/")
    try:
        network = ip_network(address)
        prefix = int(length) if length else network.max_prefixlen
    except ValueError:
        return False
    found = find_range(segment, network)
    return (
        found is not None
        and _is_inside(network, found.own)
        and found.whole.prefixlen <= prefix <= network.max_prefixlen
    )


def _is_inside(one: RangeNetwork, other: RangeNetwork) -> bool:
    return one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]
