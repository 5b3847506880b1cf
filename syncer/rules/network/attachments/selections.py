"""Annotations with which a pod asks for networks, translated to the super cluster.

Pure. Owns both forms of the list (`namespace/name@interface` and JSON) and the checks of each
request. The result always has the JSON form with the super namespace. Must not know the
definitions.

Hazard: the namespace must always be written. Multus uses a namespace of the super cluster for a
default network without one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple

import orjson

from kubeio import Object
from syncer.model import builtin_policy
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.network.attachments import cni_config, segments
from syncer.rules.network.attachments.plugin_tables import is_address, is_list_of, is_text
from syncer.rules.network.attachments.segments import AddressRange, Segment
from tenancy import names
from tenancy.policy.network_attachments import NetworkAttachments

NETWORKS = builtin_policy.POD_NETWORKS
DEFAULT_NETWORK = builtin_policy.POD_DEFAULT_NETWORK
RULE = "pod-networks"
MAX_NETWORKS = 16
MAX_ANNOTATION_CHARACTERS = 8 * 1024
_INTERFACE = re.compile(r"[a-z][a-z0-9._-]{0,14}")
_RESERVED_INTERFACES = frozenset({"eth0", "lo"})
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_LOCAL_UNICAST = 0b10
"""Value of the two lowest bits of the first byte of a locally administered address."""
_MAX_SHOWN_CHARACTERS = 40
_KEYS: Mapping[str, Callable[[Any], bool]] = {
    "default-route": is_list_of(is_address),
    "interface": is_text,
    "ips": is_list_of(is_text),
    "mac": is_text,
    "name": is_text,
    "namespace": is_text,
}


class NetworkSelection(NamedTuple):
    """One network that a pod asks for, in the tenant's names."""

    namespace: str
    name: str
    interface: str = ""
    ips: tuple[str, ...] = ()
    mac: str = ""
    gateways: tuple[str, ...] = ()


class SelectionContext(NamedTuple):
    """Outside facts of the translation."""

    attachments: NetworkAttachments
    get_super_namespace: Callable[[str], str]
    find_segment: Callable[[str, str], Segment | None]
    """Return the segment of the tenant's definition of a namespace and name, or None."""
    primary: str = ""
    """Annotation for the default network of a tenant with a network of its own."""


def list_selections(annotations: Mapping[str, str], namespace: str) -> list[NetworkSelection]:
    """Return every network that a pod asks for. Raises RejectedError."""
    found: list[NetworkSelection] = []
    for key in builtin_policy.POD_NETWORK_REQUESTS:
        if annotations.get(key):
            found += parse_selections(annotations[key], namespace, key)
    return found


def parse_selections(text: str, namespace: str, key: str) -> list[NetworkSelection]:
    """Return the networks of one annotation. `namespace` is that of the pod."""
    path = f"metadata.annotations[{key}]"
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        text = f"is longer than {MAX_ANNOTATION_CHARACTERS} characters. Make it shorter"
        raise cni_config.refuse(RULE, path, text)
    if any(character in text for character in '[{"'):  # as Multus distinguishes them
        found = list(_parse_json(text, namespace, path))
    else:
        found = [_parse_item(item.strip(), namespace, path) for item in text.split(",")]
    limit = 1 if key == DEFAULT_NETWORK else MAX_NETWORKS
    if len(found) > limit:
        raise cni_config.refuse(RULE, path, f"names {len(found)} networks. Name at most {limit}")
    return found


def _parse_item(item: str, namespace: str, path: str) -> NetworkSelection:
    place, slash, rest = item.rpartition("/")
    name, at, interface = rest.partition("@")
    if (slash and not place) or (at and not interface):
        raise _build_shape_error(path)
    selection = NetworkSelection(
        place.strip() if slash else namespace, name.strip(), interface.strip()
    )
    return _check_names(selection, path)


def _parse_json(text: str, namespace: str, path: str) -> Iterator[NetworkSelection]:
    found = cni_config.load_json(text, path, RULE, limit=MAX_ANNOTATION_CHARACTERS)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise _build_shape_error(path)
    for item in found:
        for key, value in sorted(item.items()):
            if key not in _KEYS or not _KEYS[key](value):
                shown = key[:_MAX_SHOWN_CHARACTERS]
                text = f"has a key {shown!r} that is not offered, or its value. Remove it"
                raise cni_config.refuse(RULE, path, text)
        selection = NetworkSelection(
            namespace=item.get("namespace") or namespace,
            name=item.get("name", ""),
            interface=item.get("interface", ""),
            ips=tuple(item.get("ips", ())),
            mac=item.get("mac", ""),
            gateways=tuple(item.get("default-route", ())),
        )
        yield _check_names(selection, path)


def _check_names(selection: NetworkSelection, path: str) -> NetworkSelection:
    if not names.is_dns_label(selection.namespace) or not names.is_dns_subdomain(selection.name):
        raise _build_shape_error(path)
    interface = selection.interface
    if interface and (_INTERFACE.fullmatch(interface) is None or interface in _RESERVED_INTERFACES):
        shown = interface[:_MAX_SHOWN_CHARACTERS]
        text = f"names the interface {shown!r}, which is not offered. Use one such as net1"
        raise cni_config.refuse(RULE, path, text)
    return selection


def _build_shape_error(path: str) -> RejectedError:
    text = "must list networks as namespace/name@interface, or as JSON. Correct it"
    return cni_config.refuse(RULE, path, text)


def translate_annotations(
    annotations: Mapping[str, str], namespace: str, context: SelectionContext
) -> dict[str, str]:
    """Return the annotations of the twin of a pod. Raises RejectedError with every problem."""
    if not any(annotations.get(key) for key in builtin_policy.POD_NETWORK_REQUESTS):
        return {DEFAULT_NETWORK: context.primary} if context.primary else {}
    problems: list[RejectionProblem] = []
    found: dict[str, str] = {}
    for key in builtin_policy.POD_NETWORK_REQUESTS:
        if not annotations.get(key):
            continue
        path = f"metadata.annotations[{key}]"
        try:
            _check_offer(key, context, path)
            asked = parse_selections(annotations[key], namespace, key)
        except RejectedError as refused:
            problems += refused.problems
            continue
        problems += [each for one in asked for each in _find_problems(one, context, path)]
        found[key] = _format_selections(asked, context)
    if problems:
        raise RejectedError(*problems)
    if context.primary:
        found[DEFAULT_NETWORK] = context.primary
    return found


def _check_offer(key: str, context: SelectionContext, path: str) -> None:
    if context.attachments.conflict:
        text = "cannot be offered now. Remove it, or contact your platform administrator"
        raise cni_config.refuse(RULE, path, text)
    if key != DEFAULT_NETWORK:
        return
    if context.primary:
        text = "is set by the network of this cluster. Remove it"
        raise cni_config.refuse(RULE, path, text)
    if context.attachments.default_network != "Allow":
        text = f"is not offered. Use {NETWORKS} for an additional interface"
        raise cni_config.refuse(RULE, path, text)


def _find_problems(
    asked: NetworkSelection, context: SelectionContext, path: str
) -> Iterator[RejectionProblem]:
    where = f"{path}, network {asked.namespace}/{asked.name},"
    if asked.mac and context.attachments.mac_addresses != "Allow":
        yield RejectionProblem(RULE, where, "must not choose a MAC address here. Remove mac")
    elif asked.mac and not _is_local_mac(asked.mac):
        text = "needs a locally administered unicast address, such as 02:00:00:00:00:01. Change mac"
        yield RejectionProblem(RULE, where, text)
    if not asked.ips and not asked.gateways:
        return
    segment = context.find_segment(asked.namespace, asked.name)
    if segment is None:
        text = "chooses addresses of a network that does not exist or is refused. Create it first"
        yield RejectionProblem(RULE, where, text)
        return
    for address in asked.ips:
        if not segments.owns_address(segment, address):
            own = ", ".join(str(each.own) for each in segment.ranges) or "none"
            shown = address[:_MAX_SHOWN_CHARACTERS]
            text = f"must not use {shown!r}. Choose an address of {own}"
            yield RejectionProblem(RULE, where, text)
    for gateway in asked.gateways:
        if not any(_is_in(gateway, each) for each in segment.ranges):
            text = f"must not use the gateway {gateway}. Choose one in the range of the network"
            yield RejectionProblem(RULE, where, text)


def _is_in(text: str, found: AddressRange) -> bool:
    address = ip_address(text)
    return address.version == found.whole.version and address in found.whole


def _is_local_mac(text: str) -> bool:
    return _MAC.fullmatch(text) is not None and int(text[:2], 16) & 0b11 == _LOCAL_UNICAST


def _format_selections(asked: Sequence[NetworkSelection], context: SelectionContext) -> str:
    found: list[Object] = []
    for each in asked:
        item: Object = {
            "name": each.name,
            "namespace": context.get_super_namespace(each.namespace),
            "interface": each.interface,
            "ips": list(each.ips),
            "mac": each.mac,
            "default-route": list(each.gateways),
        }
        found.append({key: value for key, value in item.items() if value})
    return orjson.dumps(found).decode()


def find_left_out(annotations: Mapping[str, str]) -> list[RejectionProblem]:
    """Return a notice for each annotation that is left out where networks are not offered."""
    text = (
        "is left out, because additional networks are not offered to this cluster. Contact your"
        " platform administrator"
    )
    return [
        RejectionProblem(RULE, f"metadata.annotations[{key}]", text)
        for key in builtin_policy.POD_NETWORK_REQUESTS
        if annotations.get(key)
    ]


def build_default(super_namespace: str, name: str) -> str:
    """Return the annotation for the default network of a pod."""
    return orjson.dumps([{"name": name, "namespace": super_namespace}]).decode()
