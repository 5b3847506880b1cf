"""CNI plugins that a tenant may configure, with the allowed keys of each.

Pure data. A plugin, an IPAM plugin or a key that is not listed is refused. Must not know policies.

Hazard: a key must not name a path, a program or an object of the node, and must not make the node
route, masquerade or answer for the network. `isGateway`, `ipMasq`, `dataDir`, `log_file`,
`kubernetes` and `delegate` are such keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

ValueCheck = Callable[[Any], bool]

MIN_MTU, MAX_MTU = 576, 9216
MAX_LISTED = 16
_MAX_RATE = 10**12


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false."""
    return isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_mtu(value: Any) -> bool:
    """Return whether a value is an MTU."""
    return is_number(value) and MIN_MTU <= value <= MAX_MTU


def is_rate(value: Any) -> bool:
    """Return whether a value is a rate or a burst in bits."""
    return is_number(value) and 0 < value <= _MAX_RATE


def is_text(value: Any) -> bool:
    """Return whether a value is a text."""
    return isinstance(value, str)


def is_address(value: Any) -> bool:
    """Return whether a value is an IP address."""
    return isinstance(value, str) and _is_valid(ip_address, value)


def is_network(value: Any) -> bool:
    """Return whether a value is a CIDR. It may be an address with the length of its network."""
    return isinstance(value, str) and "/" in value and _is_valid(_parse_loosely, value)


def _parse_loosely(text: str) -> object:
    return ip_network(text, strict=False)


def _is_valid(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def is_one_of(*choices: str) -> ValueCheck:
    """Return the check that a value is one of these."""
    return lambda value: isinstance(value, str) and value in choices


def is_list_of(check: ValueCheck) -> ValueCheck:
    """Return the check that a value is a short list."""
    return lambda value: (
        isinstance(value, list) and len(value) <= MAX_LISTED and all(map(check, value))
    )


def is_map_of(required: str, checks: Mapping[str, ValueCheck]) -> ValueCheck:
    """Return the check that a value is an object with these keys only, and has one of them."""
    return lambda value: (
        isinstance(value, dict)
        and required in value
        and all(key in checks and checks[key](inner) for key, inner in value.items())
    )


is_routes = is_list_of(is_map_of("dst", {"dst": is_network, "gw": is_address}))


@dataclass(frozen=True, slots=True, kw_only=True)
class MainPlugin:
    """A plugin that creates the interface of a pod."""

    device_key: str
    """Key with the bridge or interface of the node. It has no default here."""
    vlan_key: str = ""
    """Key with the VLAN. Empty: the plugin tags nothing."""
    needs_vlan: bool = False
    """The plugin does not work untagged."""
    keys: Mapping[str, ValueCheck] = field(default_factory=dict)
    tagged: Mapping[str, Any] = field(default_factory=dict)
    """Keys that are written with a VLAN. Otherwise the interface also gets untagged frames."""


MAIN_PLUGINS: Mapping[str, MainPlugin] = {
    "bridge": MainPlugin(
        device_key="bridge",
        vlan_key="vlan",
        keys={"macspoofchk": is_flag, "mtu": is_mtu},
        tagged={"preserveDefaultVlan": False},
    ),
    "ipvlan": MainPlugin(device_key="master", keys={"mode": is_one_of("l2"), "mtu": is_mtu}),
    "macvlan": MainPlugin(
        device_key="master", keys={"mode": is_one_of("bridge", "private", "vepa"), "mtu": is_mtu}
    ),
    "vlan": MainPlugin(
        device_key="master", vlan_key="vlanId", needs_vlan=True, keys={"mtu": is_mtu}
    ),
}
CHAINED_PLUGINS: Mapping[str, Mapping[str, ValueCheck]] = {
    "bandwidth": {
        "egressBurst": is_rate,
        "egressRate": is_rate,
        "ingressBurst": is_rate,
        "ingressRate": is_rate,
    },
    "sbr": {},
    "tuning": {"mtu": is_mtu},
}
IPAM_PLUGINS: Mapping[str, Mapping[str, ValueCheck]] = {
    "static": {
        "addresses": is_list_of(
            is_map_of("address", {"address": is_network, "gateway": is_address})
        ),
        "routes": is_routes,
    },
    "whereabouts": {
        "exclude": is_list_of(is_network),
        "gateway": is_address,
        "range": is_network,
        "range_end": is_address,
        "range_start": is_address,
        "routes": is_routes,
    },
}
CAPABILITIES: Mapping[str, ValueCheck] = {"ips": is_flag, "mac": is_flag}
CNI_VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
