"""Additional networks that a TenantPolicy offers: plugins, devices, VLANs and address ranges.

Pure. Owns the types of `network.attachments`, their check, and the comparison of two policies. Must
not know how an address or a VLAN is assigned to a tenant.

Hazard: two policies must not divide overlapping ranges or pools of VLANs differently. Otherwise two
tenants get the same addresses on one VLAN.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Literal

import msgspec

PluginType = Literal["bridge", "ipvlan", "macvlan", "vlan"]
ChainedType = Literal["bandwidth", "sbr", "tuning"]
Admission = Literal["Allow", "Refuse"]
RangeNetwork = IPv4Network | IPv6Network

MAX_VLAN = 4094
UNTAGGED = 0
"""Number that stands for frames without a VLAN tag."""
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_VLANS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


class InvalidAttachmentsError(ValueError):
    """`network.attachments` cannot be used. The message names the field and the remedy."""


class AttachmentDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bridge or interface of the nodes that tenants may attach pods to."""

    name: str
    vlans: tuple[str, ...] = ()
    """VLANs that all tenants of the policy share, such as `100` and `200-210`. `0` is untagged.
    Empty, without `tenant_vlans`: untagged only."""
    tenant_vlans: str = ""
    """VLANs that are divided among all tenants, such as `1000-1999`. Each tenant has its own."""
    ranges: tuple[str, ...] = ()
    """CIDRs of addresses. On a shared VLAN each tenant gets a part of each. Empty: no addresses."""

    @property
    def is_divided(self) -> bool:
        """Return whether each tenant has VLANs of its own on the device."""
        return bool(self.tenant_vlans)


class NetworkAttachments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Additional networks of pods. Without types the tenant has none."""

    types: tuple[PluginType, ...] = ()
    chained: tuple[ChainedType, ...] = ()
    """CNI plugins that may follow the first one in a list."""
    devices: tuple[AttachmentDevice, ...] = ()
    primary_device: str = ""
    """Device of `VirtualCluster.spec.network`. It must have `tenant_vlans`. Empty: not offered."""
    mac_addresses: Admission = "Refuse"
    """Whether a pod may choose the MAC address of an additional interface."""
    default_network: Admission = "Refuse"
    """Whether a pod may replace its default network by an annotation."""
    multi_network_policies: Admission = "Refuse"

    @property
    def conflict(self) -> str:
        """Return the problem with another policy that keeps the networks from being used."""
        return ""

    @property
    def is_offered(self) -> bool:
        """Return whether the tenant may have additional networks."""
        return bool(self.types)

    def get_device(self, name: str) -> AttachmentDevice | None:
        """Return a device by its name, or None."""
        return next((each for each in self.devices if each.name == name), None)


class DisputedAttachments(NetworkAttachments, frozen=True, kw_only=True, rename="camel"):
    """Attachments that another policy divides differently, so that neither can be used."""

    dispute: str

    @property
    def conflict(self) -> str:
        """Return the problem with the other policy."""
        return self.dispute


def parse_vlans(text: str) -> range:
    """Return the VLANs of an entry such as `100` or `200-210`. Raises InvalidAttachmentsError."""
    found = _VLANS.fullmatch(text)
    first = int(found[1]) if found else MAX_VLAN + 1
    last = int(found[2]) if found and found[2] else first
    if not first <= last <= MAX_VLAN:
        raise InvalidAttachmentsError(
            f"{text!r} is no VLAN. Write a number up to {MAX_VLAN}, or a range such as 200-210"
        )
    return range(first, last + 1)


def list_ranges(device: AttachmentDevice) -> list[RangeNetwork]:
    """Return the address ranges of a device."""
    return [ip_network(each) for each in device.ranges]


def list_shared_vlans(device: AttachmentDevice) -> frozenset[int]:
    """Return the VLANs of a device that tenants share."""
    if device.is_divided:
        return frozenset()
    listed = frozenset(vlan for each in device.vlans for vlan in parse_vlans(each))
    return listed or frozenset({UNTAGGED})


def check_attachments(attachments: NetworkAttachments) -> None:
    """Raise InvalidAttachmentsError for values that no network can have."""
    names = [each.name for each in attachments.devices]
    if len(set(names)) < len(names):
        raise InvalidAttachmentsError("devices names one device twice. Merge the two entries")
    for device in attachments.devices:
        try:
            _check_device(device)
        except ValueError as problem:
            raise InvalidAttachmentsError(f"devices[{device.name}]: {problem}") from problem
    primary = attachments.primary_device
    found = attachments.get_device(primary)
    if primary and (found is None or not found.is_divided):
        raise InvalidAttachmentsError(
            f"primaryDevice {primary!r} is no device with tenantVlans. Name one that has them"
        )
    if primary and "bridge" not in attachments.types:
        raise InvalidAttachmentsError("primaryDevice needs the type bridge. Add it to types")


def _check_device(device: AttachmentDevice) -> None:
    if _DEVICE.fullmatch(device.name) is None:
        raise InvalidAttachmentsError("name must be the name of an interface. Correct it")
    if device.is_divided and device.vlans:
        raise InvalidAttachmentsError("has both vlans and tenantVlans. Keep one of them")
    if device.is_divided and UNTAGGED in parse_vlans(device.tenant_vlans):
        raise InvalidAttachmentsError("tenantVlans must not contain 0. Begin with 1 or more")
    list_shared_vlans(device)
    found = list_ranges(device)
    for index, one in enumerate(found):
        if any(_overlap(one, other) for other in found[index + 1 :]):
            raise InvalidAttachmentsError(f"range {one} overlaps another one. Keep one of them")


def resolve_conflict(
    own: NetworkAttachments, others: Mapping[str, NetworkAttachments]
) -> NetworkAttachments:
    """Return the attachments of a policy, with the conflict that keeps them from being used.

    `others` are those of the other policies, by name. Equal ranges and pools are divided alike, so
    only unequal ones that overlap are a conflict.
    """
    for name, other in sorted(others.items()):
        for device in own.devices:
            twin = other.get_device(device.name)
            text = _find_conflict(device, twin) if twin is not None else ""
            if text:
                dispute = f"{text} of device {device.name} in the TenantPolicy {name}"
                return DisputedAttachments(**msgspec.structs.asdict(own), dispute=dispute)
    return own


def _find_conflict(one: AttachmentDevice, other: AttachmentDevice) -> str:
    pools = [parse_vlans(each.tenant_vlans) for each in (one, other) if each.is_divided]
    if len(pools) == 2 and pools[0] != pools[1] and set(pools[0]) & set(pools[1]):
        return "tenantVlans overlaps tenantVlans"
    if len(pools) == 1 and set(pools[0]) & (list_shared_vlans(one) | list_shared_vlans(other)):
        return "tenantVlans and vlans overlap those"
    if not list_shared_vlans(one) & list_shared_vlans(other):
        return ""
    theirs = list_ranges(other)
    for net in list_ranges(one):
        if net not in theirs and any(_overlap(net, each) for each in theirs):
            return f"range {net} overlaps an unequal range"
    return ""


def _overlap(one: RangeNetwork, other: RangeNetwork) -> bool:
    return one.version == other.version and one.overlaps(other)


def list_networks(texts: Iterable[str]) -> list[RangeNetwork]:
    """Return networks that a policy lists, without those that cannot be read."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text, strict=False))
        except ValueError:
            continue
    return found
