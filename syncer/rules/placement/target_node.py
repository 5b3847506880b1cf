"""The one node that stands for a whole target in a tenant, and what pods say about it.

Pure. Owns what a tenant sees of a target, what its real nodes are together, and which part of a
PodSpec is meant for this node: that was heeded when the pod was placed and goes no further down, as
no node there knows of it. Must not know how a pod is placed. Hazards: a label that is over, and a
term of affinity that is dropped where it should be kept, would send a pod to any node; one that is
emptied holds for every node, and then there is none at all.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from kubeio import Object
from syncer.model.unstructured import mapping, mappings
from syncer.rules.nodes import virtual_nodes
from syncer.rules.placement.cluster_scheduler import (
    COUNTED,
    Amounts,
    amount,
    expression_holds,
)
from syncer.rules.pods.node_selection import PREFERRED, REQUIRED
from tenancy import conditions, wellknown
from tenancy.quantities import written
from tenancy.super_clusters import Taint

PROVIDER = "virtual-kubelet.io/provider"
_PROVIDER_NAME = "virtual-cluster"
_MOST_LABELS = 64
NAMES = (*COUNTED, "pods")
"""What is told, and summed, of what nodes have."""
_MOST_PODS = Decimal(10**6)
"""Of one node; API servers refuse a status in which pods are too many, or no whole number."""
_LABEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PLACES = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Part(NamedTuple):
    """What one real node adds to the one that stands for all of them."""

    capacity: Amounts
    allocatable: Amounts
    """Both are empty while it takes no pods."""
    places: tuple[str, ...]
    """Its region and zone; empty where it does not say."""


class Whole(NamedTuple):
    """What the real nodes of a target are together."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    places: Mapping[str, str]
    """Region and zone where all nodes agree, by their labels."""


def part_of(real: Mapping[str, Any]) -> Part:
    """Return what of a real node is told; a change of anything else changes nothing above."""
    status = mapping(real.get("status"))
    labels = mapping(mapping(real.get("metadata")).get("labels"))
    names = NAMES if takes_pods(real) else ()
    capacity, allocatable = (
        {name: _whole(name, mapping(status.get(field)).get(name)) for name in names}
        for field in ("capacity", "allocatable")
    )
    return Part(capacity, allocatable, tuple(_label(labels.get(key)) for key in _PLACES))


def _whole(name: str, given: Any) -> Decimal:
    """Return an amount as the API takes it of a node: of processors alone there are parts."""
    found = amount(given)
    if name == "cpu":
        return found
    return Decimal(int(min(found, _MOST_PODS) if name == "pods" else found))


def _label(given: Any) -> str:
    """Return the value of a label; what is none would have all that is applied refused."""
    return given if isinstance(given, str) and _LABEL.fullmatch(given) else ""


def whole_of(parts: Collection[Part]) -> Whole:
    """Return all nodes together."""
    said = [{part.places[at] for part in parts} for at in range(len(_PLACES))]
    agreed = [min(values) if len(values) == 1 else "" for values in said]
    return Whole(
        _summed(part.capacity for part in parts),
        _summed(part.allocatable for part in parts),
        {key: place for key, place in zip(_PLACES, agreed, strict=True) if place},
    )


def _summed(amounts: Iterable[Amounts]) -> dict[str, str]:
    sums = dict.fromkeys(NAMES, Decimal(0))
    for given in amounts:
        for name, value in given.items():
            sums[name] += value
    return {name: written(total) for name, total in sorted(sums.items())}


def name_of(target: str) -> str:
    """Return the name of the node that stands for a target."""
    return f"target-{target}"


def target_of(node: str) -> str:
    """Return the target that a node of a tenant stands for, empty when it stands for none."""
    before, found, target = node.partition("target-")
    return target if found and not before else ""


def labels_of(target: str, own: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    """Return its labels: ours, the SuperCluster's own, and where all its nodes are."""
    given = dict(list(own.items())[:_MOST_LABELS])
    return {
        **places,
        **{key: value for key, value in given.items() if not wellknown.is_reserved(key)},
        "type": "virtual-kubelet",
        PROVIDER: given.get(PROVIDER, _PROVIDER_NAME),
        "kubernetes.io/role": "agent",
        "node-role.kubernetes.io/agent": "",
        "kubernetes.io/hostname": name_of(target),
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
        wellknown.TARGET: target,
    }


def own_labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a node that stands for a target that its tenant put there.

    One of ours that is over would count as the tenant's, and lead pods to where it led before.
    """
    ours = set(annotations.get(wellknown.LABELS, "").split(","))
    return {key: value for key, value in labels.items() if key not in ours}


def node(
    target: str,
    registration: str,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    *,
    shut: bool = False,
    is_cordoned: bool = False,
) -> Object:
    """Return metadata and spec of the node, as they are applied; `shut`: the target is away.

    `is_cordoned`: it is granted no more. That stands in an annotation, too, or nobody would know
    later whose cordon there is: the tenant may have one of its own.
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
            "name": name_of(target),
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


def status(
    whole: Whole,
    *,
    version: str,
    problem: str,
    now: str,
    agent: str = "",
    virtual_node: Mapping[str, Any] | None = None,
) -> Object:
    """Return its status: all that its ready nodes have together.

    `problem` says why the target is away; empty while it answers. `agent` is the address of its
    agent, empty while there is none. `virtual_node` is what is shown now, which may have been in
    this condition for long.
    """
    shown = mapping(mapping(virtual_node).get("status")).get("conditions")
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
        "allocatable": dict(whole.allocatable),
        "capacity": dict(whole.capacity),
        "conditions": conditions.carry_times(mappings(shown), [ready]),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": wellknown.AGENT_PORT}},
        "nodeInfo": info,
    }


def takes_pods(real: Mapping[str, Any]) -> bool:
    """Tell whether a real node is ready and open."""
    said = mappings(mapping(real.get("status")).get("conditions"))
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in said)
    return is_ready and not mapping(real.get("spec")).get("unschedulable")


def is_of_a_target(virtual_node: Mapping[str, Any]) -> bool:
    """Tell whether a tenant's node stands for a target: the home cluster's key leaves it alone."""
    annotations = mapping(mapping(virtual_node.get("metadata")).get("annotations"))
    return bool(annotations.get(wellknown.SUPER_CLUSTER))


def is_shown(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Tell whether metadata and spec are as wanted; what the tenant added stays."""
    is_open = not mapping(virtual_node.get("spec")).get("unschedulable")
    if is_open and wanted["spec"].get("unschedulable"):
        return False
    return virtual_nodes.is_node_shown(virtual_node, wanted)


def is_status_shown(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Tell whether the status is as wanted, but for when it began.

    A tenant may have said of more that there is some; that is its own.
    """
    there = mapping(virtual_node.get("status"))
    for condition in wanted["conditions"]:
        found = conditions.find(mappings(there.get("conditions")), condition["type"]) or {}
        if any(found.get(key) != condition[key] for key in ("status", "reason", "message")):
            return False
    return (
        all(
            mapping(there.get(field)).get(name) == value
            for field in ("allocatable", "capacity")
            for name, value in wanted[field].items()
        )
        and there.get("daemonEndpoints") == wanted["daemonEndpoints"]
        and _agents_of(there) == _agents_of(wanted)
        and mapping(there.get("nodeInfo")).get("kubeletVersion")
        == (wanted["nodeInfo"]["kubeletVersion"])
    )


def _agents_of(status: Mapping[str, Any]) -> list[Any]:
    """Return where the agent is, as a status says; a tenant may have written others beside."""
    listed = mappings(status.get("addresses"))
    return [each.get("address") for each in listed if each.get("type") == wellknown.AGENT_ADDRESS]


# --- what pods say about it -----------------------------------------------------------------------


def consumed(
    pod: Mapping[str, Any], target: str, labels: Mapping[str, str], taints: Sequence[Taint]
) -> Object:
    """Return a tenant pod without what it says about the node that stands for a target."""
    spec = dict(mapping(pod.get("spec")))
    spec.pop("nodeName", None)
    selector = spec.get("nodeSelector")
    if isinstance(selector, dict):
        _set(spec, "nodeSelector", {k: v for k, v in selector.items() if k not in labels})
    affinity = spec.get("affinity")
    if isinstance(affinity, dict) and isinstance(affinity.get("nodeAffinity"), dict):
        rest = dict(affinity)
        _set(rest, "nodeAffinity", _affinity(affinity["nodeAffinity"], name_of(target), labels))
        _set(spec, "affinity", rest)
    keys = {taint.key for taint in taints}
    tolerations = spec.get("tolerations")
    if isinstance(tolerations, list) and keys:
        kept = [t for t in tolerations if not (isinstance(t, dict) and t.get("key") in keys)]
        _set(spec, "tolerations", kept)
    return {**pod, "spec": spec}


def _affinity(found: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    rest = dict(found)
    required = found.get(REQUIRED)
    if isinstance(required, dict) and isinstance(required.get("nodeSelectorTerms"), list):
        terms = [_term(term, name, labels) for term in mappings(required["nodeSelectorTerms"])]
        left = [term for term in terms if term is not None]
        if any(not term for term in left):
            rest.pop(REQUIRED)  # one of them holds for every node there
        else:
            rest[REQUIRED] = {**required, "nodeSelectorTerms": left}
    if isinstance(found.get(PREFERRED), list):
        preferred = []
        for item in mappings(found[PREFERRED]):
            term = _term(mapping(item.get("preference")), name, labels)
            if term:
                preferred.append({**item, "preference": term})
        _set(rest, PREFERRED, preferred)
    return rest


def _term(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what of a term is left for the nodes there; None: it does not hold there.

    An empty one holds for every node there. One that was empty before holds for none.
    """
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return None
    left = []
    for item in mappings(expressions):
        if item.get("key") not in labels:
            left.append(item)
        elif not expression_holds(item, labels):
            return None
    for item in mappings(fields):
        if not expression_holds(item, {"metadata.name": name}):
            return None
    return {"matchExpressions": left} if left else {}


def _set(fields: dict[str, Any], field: str, value: Any) -> None:
    """Write a field, or take it away when it says nothing."""
    fields.pop(field, None)
    if value:
        fields[field] = value
