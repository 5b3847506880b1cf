"""MultiNetworkPolicies: network policies of additional interfaces.

Pure. Owns the twin. The networks in the annotation are translated to super namespaces, and
selectors as in a NetworkPolicy. Blocks of addresses stay, because they are addresses of the
additional network. Must not know which plugin enforces a policy.

Hazard: a peer that selects nothing must be removed, and a rule with its last peer. A rule without
peers allows all traffic.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer.model import label_selectors, object_meta
from syncer.model.field_rules import FieldWalk
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.replace_update import build_replacement
from syncer.model.tenant_view import TenantView
from syncer.rules.network import network_policies, policy_size
from syncer.rules.network.attachments import segments
from syncer.rules.network.network_policies import NETWORK_POLICY_SPEC
from syncer.rules.network.policy_peers import PolicyDirection
from tenancy import names
from tenancy.resources import MULTI_NETWORK_POLICIES

KIND = MULTI_NETWORK_POLICIES.kind
POLICY_FOR = "k8s.v1.cni.cncf.io/policy-for"
"""Annotation with the networks of a policy, separated by commas."""
RULE = "multi-network-policies"
MAX_NETWORKS = 16


def build_policy(tenant_policy: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a MultiNetworkPolicy. Raises RejectedError."""
    segments.check_offer(view, "spec")
    if view.policy.network.attachments.multi_network_policies != "Allow":
        text = (
            "is not offered to this cluster, so the policy has no effect. Contact your platform"
            " administrator"
        )
        raise ForbiddenObjectError(RejectionProblem(RULE, "spec", text))
    metadata = tenant_policy["metadata"]
    walk = FieldWalk()
    spec = walk.walk_fields(tenant_policy.get("spec") or {}, NETWORK_POLICY_SPEC, "spec")
    problems = (
        walk.problems
        or list(policy_size.check_written_size(spec))
        or list(network_policies.find_problems(spec))
    )
    networks = translate_networks(
        (metadata.get("annotations") or {}).get(POLICY_FOR), metadata["namespace"], view
    )
    if problems or not networks:
        raise RejectedError(*(problems or [_build_network_problem()]))
    return {
        "apiVersion": MULTI_NETWORK_POLICIES.api_version,
        "kind": KIND,
        "metadata": object_meta.build_super_metadata(
            KIND,
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            rewritten={POLICY_FOR: networks},
        ),
        "spec": _build_spec(spec, view),
    }


def translate_networks(text: Any, namespace: str, view: TenantView) -> str:
    """Return the networks of the annotation in the super cluster. Empty if it is malformed."""
    items = text.split(",") if isinstance(text, str) else []
    found = []
    for item in items:
        place, slash, name = item.strip().rpartition("/")
        place = place if slash else namespace
        if not (names.is_dns_label(place) and names.is_dns_subdomain(name)):
            return ""
        found.append(f"{view.get_super_namespace(place)}/{name}")
    return ",".join(found) if len(found) <= MAX_NETWORKS else ""


def _build_network_problem() -> RejectionProblem:
    text = f"must list 1 to {MAX_NETWORKS} networks as namespace/name. Correct it"
    return RejectionProblem(RULE, f"metadata.annotations[{POLICY_FOR}]", text)


def _build_spec(spec: Mapping[str, Any], view: TenantView) -> Object:
    twin: Object = {
        "podSelector": label_selectors.translate_selector(
            spec.get("podSelector") or {}, view.policy.metadata
        ),
        "policyTypes": network_policies.get_policy_types(spec),
    }
    for direction in PolicyDirection:
        if direction.policy_type in twin["policyTypes"]:
            twin[direction.rules_field] = network_policies.build_selected_rules(
                spec.get(direction.rules_field) or (), direction, view
            )
    return twin


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the policy to put in place of the live one, or None."""
    return build_replacement(live, twin, table=NETWORK_POLICY_SPEC, field="spec")
