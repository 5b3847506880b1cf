"""Connections that NetworkPolicies allow: an evaluator written from the API's own text.

It shares no code with the judged program. The rules (networking.k8s.io/v1):

- Pods are not isolated until a policy of that direction selects them. Policies add up.
- A rule matches when both its peers and its ports do. Missing or empty peers match every peer, and
missing or empty ports match all ports.
- A peer with a podSelector alone means pods of the policy's namespace.
- A namespaceSelector means all pods of these namespaces, or those that its podSelector selects.
- An empty selector selects everything.
- An ipBlock matches addresses in its CIDR that are not in one of its exceptions.
- A connection must be allowed at both ends.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True)
class NetworkHost:
    """One end of a connection that is no pod."""

    ip: str


@dataclass(frozen=True)
class NetworkPod(NetworkHost):
    """A pod, with the labels of its namespace."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(hash=False)
    namespace_labels: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class NetworkPort:
    """Where a connection goes."""

    number: int
    protocol: str = "TCP"


def allowed(
    policies: Sequence[Policy], source: NetworkHost, target: NetworkHost, port: NetworkPort
) -> bool:
    """Return whether a connection is allowed."""
    return may(policies, source, target, port, "Egress") and may(
        policies, target, source, port, "Ingress"
    )


def may(
    policies: Sequence[Policy],
    own: NetworkHost,
    other: NetworkHost,
    port: NetworkPort,
    direction: str,
) -> bool:
    """Return whether one end allows a connection with the other."""
    mine = [policy for policy in policies if is_selected(policy, own, direction)]
    if not mine:
        return True
    return any(
        _peers_match(rule, policy, other, direction) and _ports_match(rule, port)
        for policy in mine
        for rule in policy["spec"].get(direction.lower()) or ()
    )


def is_selected(policy: Policy, host: NetworkHost, direction: str) -> bool:
    """Return whether a policy isolates a host in a direction."""
    if not isinstance(host, NetworkPod) or host.namespace != policy["metadata"]["namespace"]:
        return False
    spec = policy["spec"]
    types = spec.get("policyTypes")
    if not types:
        types = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    return direction in types and _selects(spec["podSelector"], host.labels)


def _peers_match(
    rule: Mapping[str, Any], policy: Policy, other: NetworkHost, direction: str
) -> bool:
    peers = rule.get("from" if direction == "Ingress" else "to")
    return not peers or any(_peer_matches(peer, policy, other) for peer in peers)


def _peer_matches(peer: Mapping[str, Any], policy: Policy, other: NetworkHost) -> bool:
    block = peer.get("ipBlock")
    if block is not None:
        return _holds(block["cidr"], other) and not any(
            _holds(each, other) for each in block.get("except") or ()
        )
    if not isinstance(other, NetworkPod):
        return False
    namespaces, pods = peer.get("namespaceSelector"), peer.get("podSelector")
    if namespaces is None:
        in_namespace = other.namespace == policy["metadata"]["namespace"]
    else:
        in_namespace = _selects(namespaces, other.namespace_labels)
    return in_namespace and (pods is None or _selects(pods, other.labels))


def _holds(cidr: str, host: NetworkHost) -> bool:
    address, network = ipaddress.ip_address(host.ip), ipaddress.ip_network(cidr)
    return address.version == network.version and address in network


def _ports_match(rule: Mapping[str, Any], port: NetworkPort) -> bool:
    ports = rule.get("ports")
    return not ports or any(_port_matches(each, port) for each in ports)


def _port_matches(each: Mapping[str, Any], port: NetworkPort) -> bool:
    if each.get("protocol", "TCP") != port.protocol:
        return False
    first = each.get("port")
    return first is None or first <= port.number <= each.get("endPort", first)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    pairs = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in pairs) and all(
        _expression_holds(each, labels) for each in selector.get("matchExpressions") or ()
    )


def _expression_holds(each: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    has = each["key"] in labels
    is_listed = has and labels[each["key"]] in (each.get("values") or ())
    return {
        "In": is_listed,
        "NotIn": not is_listed,
        "Exists": has,
        "DoesNotExist": not has,
    }[each["operator"]]
