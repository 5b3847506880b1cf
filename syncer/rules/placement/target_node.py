"""Node that stands for a whole target in a tenant, and the fields of pods that refer to it.

Pure. Owns the tenant's view of a target, the sum of the target's real nodes, and the part of a
PodSpec that refers to this node. That part was applied when the pod was placed. It is not synced,
because no node in the target knows it. Must not know how a pod is placed.

Hazard: a label must be removed when it no longer applies, and an affinity term must not be dropped
by mistake. Otherwise the pod may run on any node.

Hazard: a term that becomes empty matches every node of the target, so the whole requirement must be
removed. The API matches no node for an empty term, so the pod would never run.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from kubeio import Object
from syncer.model.builtin_policy import PREFERRED, REQUIRED
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.nodes import virtual_nodes
from syncer.rules.placement.cluster_scheduler import (
    COMPARED_RESOURCES,
    ResourceAmounts,
    matches_expression,
    parse_amount,
)
from tenancy import conditions, wellknown
from tenancy.quantities import format_quantity
from tenancy.super_clusters import VirtualNodeTaint

PROVIDER = "virtual-kubelet.io/provider"
_PROVIDER_NAME = "virtual-cluster"
_MAX_LABELS = 64
SUMMED_RESOURCES = (*COMPARED_RESOURCES, "pods")
"""Resources that are reported and summed over the real nodes."""
_MAX_PODS = Decimal(10**6)
"""Maximum number of pods of one node. API servers refuse a status in which the number of pods is
too large, or not a whole number."""
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class NodeShare(NamedTuple):
    """Share of one real node in the node that stands for the target."""

    capacity: ResourceAmounts
    allocatable: ResourceAmounts
    """Both are empty while the real node accepts no pods."""
    topology: tuple[str, ...]
    """Region and zone of the node. Empty if it has no such label."""


class NodeTotals(NamedTuple):
    """Sum of the real nodes of a target."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    topology: Mapping[str, str]
    """Labels of region and zone, if all nodes agree."""


def build_share(real: Mapping[str, Any]) -> NodeShare:
    """Return the reported part of a real node.

    A change of any other field changes nothing in the tenant.
    """
    status = as_mapping(real.get("status"))
    labels = as_mapping(as_mapping(real.get("metadata")).get("labels"))
    names = SUMMED_RESOURCES if is_schedulable(real) else ()
    capacity, allocatable = (
        {name: _normalize_amount(name, as_mapping(status.get(field)).get(name)) for name in names}
        for field in ("capacity", "allocatable")
    )
    return NodeShare(
        capacity, allocatable, tuple(_get_label_value(labels.get(key)) for key in _TOPOLOGY_LABELS)
    )


def _normalize_amount(name: str, given: Any) -> Decimal:
    """Return an amount in a form that the API accepts for a node. Only CPU may be fractional."""
    found = parse_amount(given)
    if name == "cpu":
        return found
    return Decimal(int(min(found, _MAX_PODS) if name == "pods" else found))


def _get_label_value(given: Any) -> str:
    """Return the value of a label. Empty if invalid.

    An invalid value would make the API refuse the whole apply.
    """
    return given if isinstance(given, str) and _LABEL_VALUE.fullmatch(given) else ""


def sum_nodes(parts: Collection[NodeShare]) -> NodeTotals:
    """Return the sum of all nodes."""
    said = [{part.topology[at] for part in parts} for at in range(len(_TOPOLOGY_LABELS))]
    agreed = [min(values) if len(values) == 1 else "" for values in said]
    return NodeTotals(
        _format_amounts(part.capacity for part in parts),
        _format_amounts(part.allocatable for part in parts),
        {key: place for key, place in zip(_TOPOLOGY_LABELS, agreed, strict=True) if place},
    )


def _format_amounts(amounts: Iterable[ResourceAmounts]) -> dict[str, str]:
    sums = dict.fromkeys(SUMMED_RESOURCES, Decimal(0))
    for given in amounts:
        for name, value in given.items():
            sums[name] += value
    return {name: format_quantity(total) for name, total in sorted(sums.items())}


def build_node_name(target: str) -> str:
    """Return the name of the node that stands for a target."""
    return f"target-{target}"


def parse_node_name(node: str) -> str:
    """Return the target that a tenant's node stands for. Empty if it stands for none."""
    before, found, target = node.partition("target-")
    return target if found and not before else ""


def build_labels(
    target: str, own: Mapping[str, str], topology: Mapping[str, str]
) -> dict[str, str]:
    """Return the labels of the node.

    These are the syncer's labels, the labels of the SuperCluster, and the region and zone of all
    its nodes.
    """
    given = dict(list(own.items())[:_MAX_LABELS])
    return {
        **topology,
        **{key: value for key, value in given.items() if not wellknown.is_reserved_key(key)},
        "type": "virtual-kubelet",
        PROVIDER: given.get(PROVIDER, _PROVIDER_NAME),
        "kubernetes.io/role": "agent",
        "node-role.kubernetes.io/agent": "",
        "kubernetes.io/hostname": build_node_name(target),
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
        wellknown.TARGET: target,
    }


def list_own_labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the tenant added to a node that stands for a target.

    An outdated label of the syncer must not count as the tenant's. Otherwise it places pods by the
    earlier state.
    """
    ours = set(annotations.get(wellknown.LABELS, "").split(","))
    return {key: value for key, value in labels.items() if key not in ours}


def build_node(
    target: str,
    registration: str,
    labels: Mapping[str, str],
    taints: Sequence[VirtualNodeTaint],
    *,
    shut: bool = False,
    is_cordoned: bool = False,
) -> Object:
    """Return metadata and spec of the node, for server-side apply.

    `shut` is True while the target is unreachable. `is_cordoned` is True if the target is no longer
    granted. An annotation records the cordon, because the tenant may have a cordon of its own.
    Without the record the two could not be distinguished later.
    """
    away = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    is_listed = any((t.key, t.effect) == (away["key"], away["effect"]) for t in taints)
    listed = [
        {
            "key": taint.key,
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        }
        for taint in taints
    ]
    shown = {**labels, wellknown.VIRTUAL_NODE: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": build_node_name(target),
            "labels": shown,
            "annotations": {
                wellknown.LABELS: ",".join(sorted(shown)),
                wellknown.UID: registration,
                wellknown.SUPER_CLUSTER: registration,
                wellknown.CORDONED: "true" if is_cordoned else "false",
            },
        },
        "spec": {
            "taints": [*listed, *([away] if shut and not is_listed else [])],
            **({"unschedulable": True} if is_cordoned else {}),
        },
    }


def build_status(
    totals: NodeTotals,
    *,
    version: str,
    problem: str,
    now: str,
    agent: str = "",
    virtual_node: Mapping[str, Any] | None = None,
) -> Object:
    """Return the status of the node: the sum of the target's ready nodes.

    `problem` is the reason why the target is unreachable. It is empty while the target answers.
    `agent` is the address of the target's agent. It is empty while there is none. `virtual_node` is
    the present node, and an unchanged condition keeps its transition time.
    """
    shown = as_mapping(as_mapping(virtual_node).get("status")).get("conditions")
    ready = {
        "type": "Ready",
        "status": "Unknown" if problem else "True",
        "reason": "TargetUnreachable" if problem else "TargetReady",
        "message": "The cluster behind this node does not answer."
        if problem
        else "The cluster behind this node answers.",
        "lastTransitionTime": now,
    }
    addresses = [{"type": wellknown.AGENT_ADDRESS, "address": agent}]
    info = {
        "architecture": "",
        "bootID": "",
        "containerRuntimeVersion": "",
        "kernelVersion": "",
        "kubeProxyVersion": "",
        "kubeletVersion": version,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "",
        "systemUUID": "",
    }
    return {
        **({"addresses": addresses} if agent else {}),
        "allocatable": dict(totals.allocatable),
        "capacity": dict(totals.capacity),
        "conditions": conditions.carry_transition_times(as_mappings(shown), [ready]),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": wellknown.AGENT_PORT}},
        "nodeInfo": info,
    }


def is_schedulable(real: Mapping[str, Any]) -> bool:
    """Return whether a real node is ready and schedulable."""
    said = as_mappings(as_mapping(real.get("status")).get("conditions"))
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in said)
    return is_ready and not as_mapping(real.get("spec")).get("unschedulable")


def is_target_node(virtual_node: Mapping[str, Any]) -> bool:
    """Return whether a tenant's node stands for a target.

    The reconcile of the home cluster ignores such a node.
    """
    annotations = as_mapping(as_mapping(virtual_node.get("metadata")).get("annotations"))
    return bool(annotations.get(wellknown.SUPER_CLUSTER))


def is_node_current(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Return whether metadata and spec are as wanted. The tenant's additions stay."""
    is_open = not as_mapping(virtual_node.get("spec")).get("unschedulable")
    if is_open and wanted["spec"].get("unschedulable"):
        return False
    return virtual_nodes.is_node_current(virtual_node, wanted)


def is_status_current(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Return whether the status is as wanted, apart from the transition times.

    Additional entries are the tenant's own and stay.
    """
    there = as_mapping(virtual_node.get("status"))
    for condition in wanted["conditions"]:
        found = (
            conditions.find_condition(as_mappings(there.get("conditions")), condition["type"]) or {}
        )
        if any(found.get(key) != condition[key] for key in ("status", "reason", "message")):
            return False
    return (
        all(
            as_mapping(there.get(field)).get(name) == value
            for field in ("allocatable", "capacity")
            for name, value in wanted[field].items()
        )
        and there.get("daemonEndpoints") == wanted["daemonEndpoints"]
        and _list_agent_addresses(there) == _list_agent_addresses(wanted)
        and as_mapping(there.get("nodeInfo")).get("kubeletVersion")
        == (wanted["nodeInfo"]["kubeletVersion"])
    )


def _list_agent_addresses(status: Mapping[str, Any]) -> list[Any]:
    """Return the addresses of the agent in a status.

    A tenant may have added addresses of other types.
    """
    listed = as_mappings(status.get("addresses"))
    return [each.get("address") for each in listed if each.get("type") == wellknown.AGENT_ADDRESS]


# --- fields of pods that refer to it --------------------------------------------------------------


def strip_target_constraints(
    pod: Mapping[str, Any],
    target: str,
    labels: Mapping[str, str],
    taints: Sequence[VirtualNodeTaint],
) -> Object:
    """Return a tenant pod without the fields that refer to the node that stands for a target."""
    spec = dict(as_mapping(pod.get("spec")))
    spec.pop("nodeName", None)
    selector = spec.get("nodeSelector")
    if isinstance(selector, dict):
        _set_field(spec, "nodeSelector", {k: v for k, v in selector.items() if k not in labels})
    affinity = spec.get("affinity")
    if isinstance(affinity, dict) and isinstance(affinity.get("nodeAffinity"), dict):
        rest = dict(affinity)
        _set_field(
            rest,
            "nodeAffinity",
            _rewrite_affinity(affinity["nodeAffinity"], build_node_name(target), labels),
        )
        _set_field(spec, "affinity", rest)
    keys = {taint.key for taint in taints}
    tolerations = spec.get("tolerations")
    if isinstance(tolerations, list) and keys:
        kept = [t for t in tolerations if not (isinstance(t, dict) and t.get("key") in keys)]
        _set_field(spec, "tolerations", kept)
    return {**pod, "spec": spec}


def _rewrite_affinity(
    found: Mapping[str, Any], name: str, labels: Mapping[str, str]
) -> dict[str, Any]:
    rest = dict(found)
    required = found.get(REQUIRED)
    if isinstance(required, dict) and isinstance(required.get("nodeSelectorTerms"), list):
        terms = [
            _rewrite_term(term, name, labels) for term in as_mappings(required["nodeSelectorTerms"])
        ]
        left = [term for term in terms if term is not None]
        if any(not term for term in left):
            rest.pop(REQUIRED)  # one term matches every node of the target
        else:
            rest[REQUIRED] = {**required, "nodeSelectorTerms": left}
    if isinstance(found.get(PREFERRED), list):
        preferred = []
        for item in as_mappings(found[PREFERRED]):
            term = _rewrite_term(as_mapping(item.get("preference")), name, labels)
            if term:
                preferred.append({**item, "preference": term})
        _set_field(rest, PREFERRED, preferred)
    return rest


def _rewrite_term(
    term: Mapping[str, Any], name: str, labels: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the rest of a term for the nodes of the target. None if the term does not match.

    An empty result matches every node of the target. A term that was empty from the start matches
    none.
    """
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return None
    left = []
    for item in as_mappings(expressions):
        if item.get("key") not in labels:
            left.append(item)
        elif not matches_expression(item, labels):
            return None
    for item in as_mappings(fields):
        if not matches_expression(item, {"metadata.name": name}):
            return None
    return {"matchExpressions": left} if left else {}


def _set_field(fields: dict[str, Any], field: str, value: Any) -> None:
    """Write a field, or remove it if the value is empty."""
    fields.pop(field, None)
    if value:
        fields[field] = value
