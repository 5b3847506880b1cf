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
from typing import Any

import orjson

from kubeio import Object
from syncer.model import label_selectors, object_meta
from syncer.model.field_rules import (
    ALLOW_SCALAR,
    AllowValues,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
)
from syncer.model.label_selectors import SELECTOR
from syncer.model.references import is_reserved_name
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.replace_update import build_replacement
from syncer.model.super_cidrs import CidrSet
from syncer.model.tenant_view import TenantView
from syncer.rules.network import ip_blocks, policy_peers, policy_size
from syncer.rules.network.ip_blocks import IpBlock
from syncer.rules.network.policy_peers import PolicyDirection
from tenancy import wellknown

_PEERS = ListOfObjects(
    {
        "ipBlock": ObjectFields({"cidr": ALLOW_SCALAR, "except": ALLOW_SCALAR}),
        "namespaceSelector": ObjectFields(SELECTOR),
        "podSelector": ObjectFields(SELECTOR),
    }
)
_PORTS = ListOfObjects({"endPort": ALLOW_SCALAR, "port": ALLOW_SCALAR, "protocol": ALLOW_SCALAR})

NETWORK_POLICY_SPEC: Mapping[str, FieldRule] = {
    "egress": ListOfObjects({"ports": _PORTS, "to": _PEERS}),
    "ingress": ListOfObjects({"from": _PEERS, "ports": _PORTS}),
    "podSelector": ObjectFields(SELECTOR),
    "policyTypes": AllowValues(
        frozenset({"Ingress", "Egress"}), "policy-type", "Use Ingress, Egress or both"
    ),
}
"""Verdicts on a NetworkPolicySpec. Peers are walked by this table and then rewritten."""


def build_network_policy(tenant_policy: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a network policy. Raises RejectedError."""
    if view.policy.sync.network_policies != "Allow":
        text = (
            "is not offered to this cluster, so the policy has no effect. Contact your platform"
            " administrator"
        )
        raise ForbiddenObjectError(RejectionProblem("network-policies", "spec", text))
    if is_reserved_name("NetworkPolicy", tenant_policy["metadata"]["name"]):
        text = "is a name that is reserved. Choose another"
        raise RejectedError(RejectionProblem("reserved-name", "metadata.name", text))
    walk = FieldWalk()
    spec = walk.walk_fields(tenant_policy.get("spec") or {}, NETWORK_POLICY_SPEC, "spec")
    problems = (
        walk.problems or list(policy_size.check_written_size(spec)) or list(find_problems(spec))
    )
    if problems:
        raise RejectedError(*problems)
    metadata = tenant_policy["metadata"]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": object_meta.build_super_metadata(
            "NetworkPolicy",
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
        ),
        "spec": _build_spec(spec, view),
    }


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the policy to put in place of the live one, or None."""
    return build_replacement(live, twin, table=NETWORK_POLICY_SPEC, field="spec")


def depends_on_namespaces(body: bytes) -> bool:
    """Return whether the meaning of a policy may change when a namespace changes."""
    return b'"namespaceSelector"' in body


# --- problems -------------------------------------------------------------------------------------


def find_problems(spec: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    """Yield the problems of the selectors and peers of a policy."""
    yield from label_selectors.find_problems(spec.get("podSelector") or {}, "spec.podSelector")
    if not isinstance(spec.get("policyTypes", []), list):
        yield RejectionProblem(
            "malformed", "spec.policyTypes", "must be a list. Correct the object"
        )
    for direction in PolicyDirection:
        for number, rule in enumerate(spec.get(direction.rules_field) or ()):
            for index, peer in enumerate(rule.get(direction.peers_field) or ()):
                where = f"spec.{direction.rules_field}[{number}].{direction.peers_field}[{index}]"
                yield from _find_peer_problems(peer, where)


def _find_peer_problems(peer: Mapping[str, Any], path: str) -> Iterator[RejectionProblem]:
    block = peer.get("ipBlock")
    if (block is None) == (not peer.keys() - {"ipBlock"}):
        text = "must have either an ipBlock or selectors. Correct the object"
        yield RejectionProblem("malformed", path, text)
    elif block is not None and _parse_block(block) is None:
        text = "must have a CIDR, and in except only smaller ones inside it. Correct the object"
        yield RejectionProblem("malformed", f"{path}.ipBlock", text)
    for field in ("podSelector", "namespaceSelector"):
        yield from label_selectors.find_problems(peer.get(field) or {}, f"{path}.{field}")


def _parse_block(block: Mapping[str, Any]) -> IpBlock | None:
    return ip_blocks.parse_block(block.get("cidr"), block.get("except") or ())


# --- rewriting ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PolicyContext:
    """Inputs for the rendering of a policy."""

    view: TenantView
    pods: CidrSet
    """Networks in which pods of any tenant may have their addresses. All networks if that is
    unknown."""
    subtracted: Mapping[PolicyDirection, CidrSet]
    """Networks that blocks lose."""
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels of the tenant's namespaces, by super namespace."""
    budget: policy_size.PolicySizeBudget


def _build_context(view: TenantView) -> _PolicyContext:
    ranges = view.get_super_cidrs()
    pods = policy_peers.list_pod_networks(view, ranges)
    above = view.list_namespace_labels().items()
    return _PolicyContext(
        view,
        pods=CidrSet(pods or ip_blocks.ALL_ADDRESSES),
        subtracted=policy_peers.build_subtracted(view, ranges),
        namespaces={view.get_super_namespace(name): labels for name, labels in above},
        budget=policy_size.PolicySizeBudget(),
    )


def _build_spec(spec: Mapping[str, Any], view: TenantView) -> Object:
    types = get_policy_types(spec)
    pods = label_selectors.translate_selector(spec.get("podSelector") or {}, view.policy.metadata)
    twin: Object = {"podSelector": pods, "policyTypes": types}
    ground = _build_context(view)
    for direction in PolicyDirection:
        if direction.policy_type in types:
            found = (
                _build_rule(rule, direction, ground)
                for rule in spec.get(direction.rules_field) or ()
            )
            rules = [rule for rule in found if rule is not None]
            twin[direction.rules_field] = [
                *rules,
                {direction.peers_field: policy_peers.build_control_plane_peers(direction, view)},
            ]
    return twin


def get_policy_types(spec: Mapping[str, Any]) -> list[str]:
    """Return the policy types. If there are none, return the defaults of the API."""
    if spec.get("policyTypes"):
        return list(spec["policyTypes"])
    return ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def build_selected_rules(
    rules: Sequence[Mapping[str, Any]], direction: PolicyDirection, view: TenantView
) -> list[Object]:
    """Return rules in which selectors select pods of the tenant only. Blocks stay as they are.

    A rule whose peers all select nothing is left out.
    """
    context, found = _build_context(view), list[Object]()
    for rule in rules:
        peers = _deduplicate(rule.get(direction.peers_field) or ())
        built = [
            dict(peer) if "ipBlock" in peer else _build_selector_peer(peer, context)
            for peer in peers
        ]
        kept = [peer for peer in built if peer is not None]
        if kept or not peers:
            ports = {"ports": rule["ports"]} if rule.get("ports") else {}
            found.append({**({direction.peers_field: kept} if kept else {}), **ports})
    return found


def _build_rule(
    rule: Mapping[str, Any], direction: PolicyDirection, context: _PolicyContext
) -> Object | None:
    """Return a rule for the super cluster. None if no peer is left."""
    peers = _deduplicate(rule.get(direction.peers_field) or ())
    blocks = [block for peer in peers if (block := _parse_block(peer.get("ipBlock") or {}))]
    if not peers:
        blocks = [IpBlock(net) for net in ip_blocks.ALL_ADDRESSES]
    taken = context.subtracted[direction]
    context.budget.take_rendered(sum(block.estimate_size(taken) for block in blocks))
    found = [_build_selector_peer(peer, context) for peer in peers if "ipBlock" not in peer]
    rewritten = [peer for peer in found if peer is not None]
    if blocks and ip_blocks.is_covered(blocks, context.pods):
        rewritten += policy_peers.build_all_pods_peers(direction, context.view)
    rewritten += [{"ipBlock": left} for block in blocks if (left := block.subtract(taken))]
    if not rewritten:
        return None
    ports = {"ports": rule["ports"]} if rule.get("ports") else {}
    return {direction.peers_field: rewritten, **ports}


def _deduplicate(peers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return each peer once."""
    spelled = {orjson.dumps(peer, option=orjson.OPT_SORT_KEYS): peer for peer in peers}
    return list(spelled.values())


def _build_selector_peer(peer: Mapping[str, Any], context: _PolicyContext) -> Object | None:
    """Return a peer of selectors for the super cluster. None if it selects no namespace.

    A peer with a pod selector only means pods of the policy's own namespace.
    """
    selector, pods = peer.get("namespaceSelector"), dict[str, Any]()
    if "podSelector" in peer:
        passing = context.view.policy.metadata
        pods = {"podSelector": label_selectors.translate_selector(peer["podSelector"], passing)}
    if selector is None:
        return pods
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return {"namespaceSelector": policy_peers.select_own_namespaces(context.view), **pods}
    context.budget.take_compared(selector, len(context.namespaces))
    names = sorted(
        name
        for name, labels in context.namespaces.items()
        if label_selectors.matches(selector, labels)
    )
    if not names:
        return None
    context.budget.take_rendered(len(names))
    listed = {"key": wellknown.NAMESPACE_NAME, "operator": "In", "values": names}
    mark = {wellknown.VC_UID: context.view.tenant.uid}
    return {"namespaceSelector": {"matchLabels": mark, "matchExpressions": [listed]}, **pods}
