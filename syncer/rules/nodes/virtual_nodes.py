"""Virtual nodes: what a tenant sees of the super nodes that its pods run on.

Pure. Owns which leaves of a node a tenant may see, and which taints on it are the tenant's own. A
node stands in a tenant from before the first binding to it until no pod object names it any more,
or longer while the tenant has something of its own on it. It has no lease and no heartbeat: what it
says changes when something happened. Hazard: times that tick (heartbeats) must stay out, or every
node would be written for every tenant every few minutes.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from kubeio import Object
from syncer.model import builtin_policy
from syncer.model.unstructured import mapping, mappings
from syncer.rules.nodes.node_agents import Agent
from tenancy import wellknown
from tenancy.policies import NodeView

_CONDITIONS = ("type", "status", "reason", "message", "lastTransitionTime")
_AMOUNTS = ("allocatable", "capacity")
MIRRORED = ("declaredFeatures", "features")
"""Fields that go up as they are, where the tenant's API knows them."""
_DIGEST_LENGTH = 16
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_MAY_GO = ("addresses", "declaredFeatures", "features")
"""Fields that a node may have no more."""
_INFO = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)
_AROUND = (
    "logs, exec, attach and port-forward go through the super cluster's API server; run and figures"
    " of pods, so also `kubectl top`, are not to be had on this node"
)
_NO_AGENT = (
    "Unknown",
    "NoAgent",
    "no node agent runs on this node: logs, exec, attach and port-forward do not work here",
)
_WAYS: Mapping[str, tuple[str, str, str]] = {
    wellknown.AGENT_STRAIGHT: (
        "True",
        "Kubelet",
        "calls for pods on this node go straight to its kubelet",
    ),
    wellknown.AGENT_AROUND: (
        "False",
        "KubeletUntrusted",
        f"the certificate of the node's kubelet does not verify: {_AROUND}",
    ),
    wellknown.AGENT_CONFIGURED: ("False", "Configured", f"by configuration, {_AROUND}"),
}
"""By how the node's agent goes to its pods: status, reason and message of a condition."""
_INFO_HIDDEN = ("bootID", "kubeProxyVersion", "machineID", "systemUUID")
"""Fields that the API wants present; what would identify the machine is empty."""


def node(
    super_node: Mapping[str, Any],
    view: NodeView = "Standard",
    virtual_node: Mapping[str, Any] | None = None,
) -> Object:
    """Return metadata and spec of the virtual node, as they are applied.

    The API keeps the taints as one list with one owner, so that the tenant's own are in it, too.
    """
    metadata, spec = super_node["metadata"], super_node.get("spec") or {}
    shown = shown_labels(metadata.get("labels") or {}, view)
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        for taint in spec.get("taints") or ()
    ]
    ours = {_taint_key(taint) for taint in taints}
    own = [taint for taint in own_taints(virtual_node or {}) if _taint_key(taint) not in ours]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": metadata["name"],
            "labels": {**shown, wellknown.VIRTUAL_NODE: "true"},
            "annotations": {
                wellknown.UID: metadata["uid"],
                wellknown.DIGEST: _digest(super_node, shown),
                wellknown.TAINTS: ",".join(sorted(ours)),
            },
        },
        # Also when empty: the list is owned as a whole, so that one that went below goes here.
        "spec": {"taints": [*taints, *own]},
    }


def shown_labels(labels: Mapping[str, str], view: NodeView) -> dict[str, str]:
    """Return those labels of a super node that its tenant sees."""
    return {
        key: value
        for key, value in labels.items()
        if builtin_policy.is_visible_node_label(key, view)
    }


def own_taints(virtual_node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the taints of a virtual node that its tenant put there, as they stand.

    A node that we made before taints were recorded has ours only.
    """
    annotations = mapping(mapping(virtual_node.get("metadata")).get("annotations"))
    recorded = annotations.get(wellknown.TAINTS)
    if recorded is None and annotations.get(wellknown.UID):
        return []
    ours = frozenset(str(recorded or "").split(","))
    taints = mappings(mapping(virtual_node.get("spec")).get("taints"))
    return [taint for taint in taints if _taint_key(taint) not in ours]


def _values(taints: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {_taint_key(taint): str(taint.get("value") or "") for taint in taints}


def _taint_key(taint: Mapping[str, Any]) -> str:
    """Return what the API lets a node have once."""
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


def _digest(super_node: Mapping[str, Any], labels: Collection[str]) -> str:
    """Return what changes when a label, a condition or a resource is not shown any more.

    Applying without it takes it off; one that went below is told by this from one that the tenant
    added above. What they say does not count.
    """
    there = super_node.get("status") or {}
    names = [
        sorted(labels),
        sorted(str(condition.get("type")) for condition in shown_conditions(there)),
        *(sorted(there.get(field) or {}) for field in _AMOUNTS),
    ]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:_DIGEST_LENGTH]


def status(
    super_node: Mapping[str, Any],
    agent: Agent | None,
    view: NodeView = "Standard",
    virtual_node: Mapping[str, Any] | None = None,
    *,
    now: datetime,
) -> Object:
    """Return the status of the virtual node, which may be there as `virtual_node`."""
    there = super_node.get("status") or {}
    info = there.get("nodeInfo") or {}
    addresses = [
        {"type": address["type"], "address": address["address"]}
        for address in there.get("addresses") or ()
        if address.get("type") == "InternalIP" and view != "Minimal"
    ]
    if agent is not None:
        addresses.append({"type": wellknown.AGENT_ADDRESS, "address": agent.address})
    found: Object = {
        # The API leaves an empty list out, so that one here would never be found as wanted.
        **({"addresses": addresses} if addresses else {}),
        "allocatable": dict(there.get("allocatable") or {}),
        "capacity": dict(there.get("capacity") or {}),
        "conditions": [
            *(
                {key: condition[key] for key in _CONDITIONS if condition.get(key)}
                for condition in shown_conditions(there)
            ),
            _directness(agent, virtual_node, now),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": wellknown.AGENT_PORT}},
        "nodeInfo": {
            **{key: info.get(key, "") for key in _INFO},
            **dict.fromkeys(_INFO_HIDDEN, ""),
        },
    }
    for field in MIRRORED:
        if there.get(field):
            found[field] = there[field]
    return found


def shown_conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions of a super node that its tenant sees: ours are made here, once."""
    found = mappings(status.get("conditions"))
    return [each for each in found if not wellknown.is_reserved(str(each.get("type") or ""))]


def _directness(
    agent: Agent | None, virtual_node: Mapping[str, Any] | None, now: datetime
) -> Object:
    """Return the condition that says how kubelet calls reach the node, and why so."""
    status, reason, message = _WAYS[agent.way] if agent is not None else _NO_AGENT
    before: Mapping[str, Any] = {}
    for each in mappings(mapping(mapping(virtual_node).get("status")).get("conditions")):
        if each.get("type") == wellknown.KUBELET_DIRECT and each.get("status") == status:
            before = each
    return {
        "type": wellknown.KUBELET_DIRECT,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before.get("lastTransitionTime") or now.strftime(_TIME),
    }


def is_node_shown(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Tell whether metadata and spec are as wanted; what the tenant added stays.

    `wanted` was made with the same virtual node, so that the tenant's taints are in it.
    """
    metadata, target = virtual_node["metadata"], wanted["metadata"]
    for field in ("labels", "annotations"):
        there = metadata.get(field) or {}
        if any(there.get(key) != value for key, value in target[field].items()):
            return False
    taints = (virtual_node.get("spec") or {}).get("taints") or ()
    # In whatever order: a tenant's tools put theirs first.
    return _values(taints) == _values(wanted["spec"]["taints"])


def is_status_shown(virtual_node: Mapping[str, Any], wanted: Object, digest: str) -> bool:
    """Tell whether the status is as wanted; conditions and amounts that a tenant added stay.

    `digest` is the one that the node's metadata should have: with another one, something that was
    shown is to go.
    """
    if (virtual_node["metadata"].get("annotations") or {}).get(wellknown.DIGEST) != digest:
        return False
    there = virtual_node.get("status") or {}
    conditions = {
        condition.get("type"): {key: condition[key] for key in _CONDITIONS if condition.get(key)}
        for condition in there.get("conditions") or ()
    }
    for field, value in wanted.items():
        if field == "conditions":
            if any(conditions.get(condition["type"]) != condition for condition in value):
                return False
        elif field in _AMOUNTS:
            found = there.get(field) or {}
            if any(found.get(name) != amount for name, amount in value.items()):
                return False
        elif there.get(field) != value:
            return False
    return all(field in wanted or not there.get(field) for field in _MAY_GO)


def is_ours(virtual_node: Mapping[str, Any]) -> bool:
    """Tell whether we made a node of a tenant: it records the super node's UID."""
    annotations = virtual_node["metadata"].get("annotations") or {}
    return bool(annotations.get(wellknown.UID))


def is_complete(virtual_node: Mapping[str, Any]) -> bool:
    """Tell whether a node has our status, so that a pod can be bound to it."""
    endpoints = (virtual_node.get("status") or {}).get("daemonEndpoints") or {}
    return bool((endpoints.get("kubeletEndpoint") or {}).get("Port") == wellknown.AGENT_PORT)
