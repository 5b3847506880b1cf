"""A tenant's own network (`VirtualCluster.spec.network`), by a table of drivers.

Pure. Owns the checks of the network, and the definition in each super namespace. Must not know how
the definition is written. `network_limits` has what cannot be used on such a network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

import orjson

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules.network.attachments import plugin_tables, segments, selections
from syncer.rules.network.attachments.segments import Segment
from tenancy import names, ownership, wellknown
from tenancy.policy.network_attachments import UNTAGGED
from tenancy.resources import NETWORK_ATTACHMENTS
from tenancy.specs import PrimaryNetwork

NETWORK_RULE = "tenant-network"
_ADMIN = "Ask your platform administrator"


class InvalidNetworkError(ValueError):
    """`spec.network` cannot be used. The message names the field and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDriver:
    """One way to give a tenant a network of its own."""

    build_config: Callable[[PrimaryNetwork, TenantView], str]
    """Return the CNI configuration of the network. Raises InvalidNetworkError."""


def _build_multus_config(network: PrimaryNetwork, view: TenantView) -> str:
    """Return a bridge with a VLAN of the tenant's own, and Whereabouts for its range."""
    attachments = view.policy.network.attachments
    device = attachments.get_device(attachments.primary_device)
    if not attachments.is_offered or device is None:
        raise InvalidNetworkError(
            "the TenantPolicy offers no network of its own to the tenant. Set"
            " network.attachments.primaryDevice in it, or remove spec.network"
        )
    if attachments.conflict:
        raise InvalidNetworkError(f"{attachments.conflict}. Use equal values in both policies")
    segment = _build_segment(view)
    cidr = ip_network(network.cidr)
    found = segments.find_range(segment, cidr)
    if found is None:
        listed = ", ".join(str(each.whole) for each in segment.ranges) or "none"
        raise InvalidNetworkError(
            f"cidr {cidr} is in none of the ranges of device {device.name}: {listed}. Choose a"
            " part of one of them"
        )
    addresses: Object = {
        "type": "whereabouts",
        "range": str(cidr),
        "network_name": segment.network_name,
        "exclude": [f"{each}/{cidr.max_prefixlen}" for each in _list_reserved(network)],
    }
    if network.gateway:
        everything = "0.0.0.0/0" if cidr.version == 4 else "::/0"
        addresses |= {
            "gateway": network.gateway,
            "routes": [{"dst": everything, "gw": network.gateway}],
        }
    plugin = {
        "type": "bridge",
        "bridge": device.name,
        "vlan": segment.vlan,
        **plugin_tables.MAIN_PLUGINS["bridge"].tagged,
        "ipam": addresses,
    }
    head = {"cniVersion": "1.0.0", "name": segment.network_name, "plugins": [plugin]}
    return orjson.dumps(head, option=orjson.OPT_SORT_KEYS).decode()


NETWORK_DRIVERS: Mapping[str, NetworkDriver] = {
    "multus-primary": NetworkDriver(build_config=_build_multus_config),
}


def _list_reserved(network: PrimaryNetwork) -> list[str]:
    """Return the addresses of routers and name servers, which no pod gets."""
    cidr = ip_network(network.cidr)
    listed = [network.gateway, *network.dns] if network.gateway else [*network.dns]
    return sorted({each for each in listed if ip_address(each) in cidr})


def _build_segment(view: TenantView) -> Segment:
    attachments = view.policy.network.attachments
    device = attachments.get_device(attachments.primary_device)
    if device is None:
        raise InvalidNetworkError("the TenantPolicy names no primaryDevice. Set it")
    try:
        return segments.build_segment(device, UNTAGGED, view, path="spec.network")
    except RejectedError as refused:
        raise InvalidNetworkError(refused.problems[0].text) from refused


def check_network(view: TenantView) -> str:
    """Return the configuration of the tenant's network. Raises InvalidNetworkError."""
    network = view.spec.network
    if network is None:
        raise InvalidNetworkError("spec.network is not set")
    driver = NETWORK_DRIVERS.get(network.driver)
    if driver is None:
        listed = ", ".join(sorted(NETWORK_DRIVERS))
        raise InvalidNetworkError(f"driver {network.driver} is unknown. Use one of {listed}")
    if view.spec.targets:
        raise InvalidNetworkError("targets cannot be used with a network. Remove one of the two")
    if NETWORK_ATTACHMENTS.kind not in view.super_stores:
        raise InvalidNetworkError(
            "the syncer is not set up for additional networks. Set networkAttachments.enabled of"
            " the chart to true"
        )
    if not view.super_stores[NETWORK_ATTACHMENTS.kind].synced:
        raise InvalidNetworkError(
            "the super cluster does not serve NetworkAttachmentDefinitions. Install Multus, which"
            " brings their definition"
        )
    _check_addresses(network)
    return driver.build_config(network, view)


def _check_addresses(network: PrimaryNetwork) -> None:
    try:
        cidr = ip_network(network.cidr)
    except ValueError as problem:
        raise InvalidNetworkError(f"cidr {network.cidr!r}: {problem}. Correct it") from problem
    for field, values in (("gateway", (network.gateway,)), ("dns", network.dns)):
        for text in values:
            if not text:
                continue
            try:
                address = ip_address(text)
            except ValueError as problem:
                raise InvalidNetworkError(f"{field} {text!r}: {problem}. Correct it") from problem
            if field == "gateway" and address not in cidr:
                raise InvalidNetworkError(f"gateway {text} is not in cidr {cidr}. Correct it")
    if cidr.num_addresses < 8:
        raise InvalidNetworkError(f"cidr {cidr} is too small. Use at least 8 addresses")


def find_problem(view: TenantView) -> str:
    """Return why the tenant's network cannot be used. Empty if it can, or if there is none."""
    if view.spec.network is None:
        return ""
    try:
        check_network(view)
    except InvalidNetworkError as problem:
        return str(problem)
    return ""


def build_annotation(view: TenantView, namespace: str) -> str:
    """Return the default network of the pods of a namespace. Empty without a network.

    Raises RejectedError while the network cannot be used. A pod on the common network instead would
    be reachable by others.
    """
    if view.spec.network is None:
        return ""
    if find_problem(view):
        text = "has no network yet, because spec.network of the VirtualCluster cannot be used"
        problem = RejectionProblem(NETWORK_RULE, "the pod", f"{text}. {_ADMIN}")
        raise RejectedError(problem)
    return selections.build_default(view.get_super_namespace(namespace), names.PRIMARY_NETWORK)


def build_network(namespace: Entry, view: TenantView) -> Object:
    """Return the definition in a super namespace. Raises InvalidNetworkError."""
    return {
        "apiVersion": NETWORK_ATTACHMENTS.api_version,
        "kind": NETWORK_ATTACHMENTS.kind,
        "metadata": {
            "name": names.PRIMARY_NETWORK,
            "namespace": view.get_super_namespace(namespace.name),
            "labels": ownership.build_owner_labels(view.tenant, namespace.name),
            "annotations": {
                **ownership.build_owner_annotations(view.tenant, namespace.name, namespace.uid),
                wellknown.SYNCED_KEYS: object_meta.encode_keys((), ()),
            },
        },
        "spec": {"config": check_network(view)},
    }
