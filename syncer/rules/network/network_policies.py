"""NetworkPolicies, rewritten to have the same meaning in the super cluster.

Pure. Owns the rewriting of peers (docs/adr/0016). A selector of namespaces becomes the list of
super namespaces that it selects, always together with the tenant's label. A block of addresses
loses the addresses of the super cluster. An empty list of peers becomes all pods of the tenant and
the world outside. Must not know how a policy is enqueued when a namespace or a range changes.

Hazard: a peer that selects nothing must be removed, and a rule must be removed with its last peer.
A rule without peers allows all traffic.

Hazard: a small policy may become a huge one, so `policy_size` must limit it before it is rendered.
Otherwise all tenants wait.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from kubeio import Object
from syncer.model import label_selectors, object_meta
from syncer.model.field_rules import ALLOW, Each, Fields, Only, Verdict, Walk
from syncer.model.label_selectors import SELECTOR
from syncer.model.rejections import Problem, RefusedError, RejectedError
from syncer.model.replace_update import replacement
from syncer.model.super_cidrs import Spans, networks
from syncer.model.tenant_view import TenantView
from syncer.rules.network import ip_blocks, policy_size
from syncer.rules.network.ip_blocks import Block
from tenancy import wellknown
from tenancy.policies import Metadata

NAME_LABEL = "kubernetes.io/metadata.name"
"""Label with the name of the namespace. Every API server sets it on each namespace."""

_PEERS = Each(
    {
        "ipBlock": Fields({"cidr": ALLOW, "except": ALLOW}),
        "namespaceSelector": Fields(SELECTOR),
        "podSelector": Fields(SELECTOR),
    }
)
_PORTS = Each({"endPort": ALLOW, "port": ALLOW, "protocol": ALLOW})

NETWORK_POLICY_SPEC: Mapping[str, Verdict] = {
    "egress": Each({"ports": _PORTS, "to": _PEERS}),
    "ingress": Each({"from": _PEERS, "ports": _PORTS}),
    "podSelector": Fields(SELECTOR),
    "policyTypes": Only(
        frozenset({"Ingress", "Egress"}), "policy-type", "use Ingress, Egress or both"
    ),
}
"""Verdicts on a NetworkPolicySpec. Peers are walked by this table and then rewritten."""


class Direction(Enum):
    """List of rules of one direction: its policy type, its field, and the field of its peers."""

    INGRESS = ("Ingress", "ingress", "from")
    EGRESS = ("Egress", "egress", "to")

    @property
    def type(self) -> str:
        """Return the policy type."""
        return self.value[0]

    @property
    def field(self) -> str:
        """Return the name of the field with the rules."""
        return self.value[1]

    @property
    def peers(self) -> str:
        """Return the name of the field with the peers of a rule."""
        return self.value[2]


_ROOT_PEERS = {
    Direction.INGRESS: ("apiserver",),  # for webhooks, and Services by proxy
    Direction.EGRESS: ("apiserver", "coredns"),
}
"""Components of the tenant's control plane that a policy never isolates its pods from."""


def network_policy(tenant_policy: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a network policy. Raises RejectedError."""
    if view.policy.sync.network_policies != "Allow":
        text = "is not offered to this cluster, so the policy has no effect; ask whoever runs it"
        raise RefusedError(Problem("network-policies", "spec", text))
    walk = Walk()
    spec = walk.fields(tenant_policy.get("spec") or {}, NETWORK_POLICY_SPEC, "spec")
    problems = (
        walk.problems
        or list(policy_size.written(spec))
        or list(_problems(spec, view.policy.metadata))
    )
    if problems:
        raise RejectedError(*problems)
    metadata = tenant_policy["metadata"]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": object_meta.super_metadata(
            "NetworkPolicy",
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
        ),
        "spec": _spec(spec, view),
    }


def change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the policy to put in place of the live one, or None."""
    return replacement(live, twin, table=NETWORK_POLICY_SPEC, at="spec")


def follows_namespaces(body: bytes) -> bool:
    """Return whether the meaning of a policy may change when a namespace changes."""
    return b'"namespaceSelector"' in body


# --- problems -------------------------------------------------------------------------------------


def _problems(spec: Mapping[str, Any], passing: Metadata) -> Iterator[Problem]:
    yield from label_selectors.problems(spec.get("podSelector") or {}, "spec.podSelector", passing)
    if not isinstance(spec.get("policyTypes", []), list):
        yield Problem("malformed", "spec.policyTypes", "must be a list; correct the object")
    for direction in Direction:
        for number, rule in enumerate(spec.get(direction.field) or ()):
            for index, peer in enumerate(rule.get(direction.peers) or ()):
                where = f"spec.{direction.field}[{number}].{direction.peers}[{index}]"
                yield from _peer_problems(peer, where, passing)


def _peer_problems(peer: Mapping[str, Any], path: str, passing: Metadata) -> Iterator[Problem]:
    block = peer.get("ipBlock")
    if (block is None) == (not peer.keys() - {"ipBlock"}):
        text = "must have either an ipBlock or selectors; correct the object"
        yield Problem("malformed", path, text)
    elif block is not None and _block(block) is None:
        text = "must have a CIDR, and in except only smaller ones inside it; correct the object"
        yield Problem("malformed", f"{path}.ipBlock", text)
    yield from label_selectors.problems(
        peer.get("podSelector") or {}, f"{path}.podSelector", passing
    )
    namespaces = (peer.get("namespaceSelector") or {}).get("matchExpressions") or ()
    for index, item in enumerate(namespaces):
        yield from label_selectors.broken(
            item, f"{path}.namespaceSelector.matchExpressions[{index}]"
        )


def _block(block: Mapping[str, Any]) -> Block | None:
    return ip_blocks.parsed(block.get("cidr"), block.get("except") or ())


# --- rewriting ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ground:
    """Inputs for the rendering of a policy."""

    view: TenantView
    pods: Spans
    """Networks in which pods of any tenant may have their addresses. All networks if that is
    unknown."""
    taken: Mapping[Direction, Spans]
    """Networks that blocks lose. For ingress the node addresses stay, because traffic through a
    node port or a load balancer has the address of the node that it passed."""
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels of the tenant's namespaces, by super namespace."""
    left: policy_size.Left


def _ground(view: TenantView) -> _Ground:
    ranges = view.ranges()
    pods = (*ranges.pods, *networks(view.policy.network.super_ranges))
    into = (*pods, *ranges.services)
    above = view.namespace_labels().items()
    return _Ground(
        view,
        pods=Spans(pods or ip_blocks.WORLD),
        taken={Direction.INGRESS: Spans(into), Direction.EGRESS: Spans((*into, *ranges.nodes))},
        namespaces={view.super_namespace(name): labels for name, labels in above},
        left=policy_size.Left(),
    )


def _spec(spec: Mapping[str, Any], view: TenantView) -> Object:
    types = _types(spec)
    twin: Object = {"podSelector": spec.get("podSelector") or {}, "policyTypes": types}
    ground = _ground(view)
    for direction in Direction:
        if direction.type in types:
            found = (_rule(rule, direction, ground) for rule in spec.get(direction.field) or ())
            rules = [rule for rule in found if rule is not None]
            twin[direction.field] = [*rules, {direction.peers: [_root_peer(direction, view)]}]
    return twin


def _types(spec: Mapping[str, Any]) -> list[str]:
    """Return the policy types. If there are none, return the defaults of the API."""
    if spec.get("policyTypes"):
        return list(spec["policyTypes"])
    return ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _rule(rule: Mapping[str, Any], direction: Direction, ground: _Ground) -> Object | None:
    """Return a rule for the super cluster. None if no peer is left."""
    peers = _distinct(rule.get(direction.peers) or ())
    blocks = [block for peer in peers if (block := _block(peer.get("ipBlock") or {}))]
    if not peers:
        blocks = [Block(net) for net in ip_blocks.WORLD]
    taken = ground.taken[direction]
    ground.left.write(sum(block.size(taken) for block in blocks))
    found = [_selected(peer, ground) for peer in peers if "ipBlock" not in peer]
    rewritten = [peer for peer in found if peer is not None]
    if blocks and ip_blocks.cover(blocks, ground.pods):
        rewritten += _all_pods(direction, ground.view)
    rewritten += [{"ipBlock": left} for block in blocks if (left := block.without(taken))]
    if not rewritten:
        return None
    ports = {"ports": rule["ports"]} if rule.get("ports") else {}
    return {direction.peers: rewritten, **ports}


def _distinct(peers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return each peer once."""
    spelled = {orjson.dumps(peer, option=orjson.OPT_SORT_KEYS): peer for peer in peers}
    return list(spelled.values())


def _selected(peer: Mapping[str, Any], ground: _Ground) -> Object | None:
    """Return a peer of selectors for the super cluster. None if it selects no namespace.

    A peer with a pod selector only means pods of the policy's own namespace.
    """
    selector = peer.get("namespaceSelector")
    if selector is None:
        return {"podSelector": peer["podSelector"]}
    pods = {"podSelector": peer["podSelector"]} if "podSelector" in peer else {}
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return {"namespaceSelector": _own_namespaces(ground.view), **pods}
    ground.left.compare(selector, len(ground.namespaces))
    names = sorted(
        name
        for name, labels in ground.namespaces.items()
        if label_selectors.matches(selector, labels)
    )
    if not names:
        return None
    ground.left.write(len(names))
    listed = {"key": NAME_LABEL, "operator": "In", "values": names}
    mark = {wellknown.VC_UID: ground.view.tenant.uid}
    return {"namespaceSelector": {"matchLabels": mark, "matchExpressions": [listed]}, **pods}


def _own_namespaces(view: TenantView) -> Object:
    """Return the selector of all super namespaces of the tenant. It excludes the control plane."""
    return {
        "matchLabels": {wellknown.VC_UID: view.tenant.uid},
        "matchExpressions": [{"key": wellknown.NAMESPACE, "operator": "Exists"}],
    }


def _all_pods(direction: Direction, view: TenantView) -> list[Object]:
    """Return the peers for all pods that a plain cluster would have.

    For ingress they include the super cluster's own pods, because its ingress controllers deliver
    traffic from outside. They never include pods of another tenant.
    """
    own = {"namespaceSelector": _own_namespaces(view)}
    if direction is Direction.EGRESS:
        return [own]
    nobodys = {"matchExpressions": [{"key": wellknown.VC_UID, "operator": "DoesNotExist"}]}
    return [own, {"namespaceSelector": nobodys}]


def _root_peer(direction: Direction, view: TenantView) -> Object:
    components = list(_ROOT_PEERS[direction])
    return {
        "namespaceSelector": {
            "matchLabels": {NAME_LABEL: view.tenant.root, wellknown.VC_UID: view.tenant.uid}
        },
        "podSelector": {
            "matchExpressions": [
                {"key": wellknown.COMPONENT, "operator": "In", "values": components}
            ]
        },
    }
