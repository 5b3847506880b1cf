"""Virtual nodes: what a tenant sees of the super nodes that its pods run on.

Pure. Owns which leaves of a node a tenant may see. A node stands in a tenant from before the first
binding to it until no pod object names it any more. It has no lease and no heartbeat: what it says
changes when something happened. Hazard: times that tick (heartbeats) must stay out, or every node
would be written for every tenant every few minutes.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer import policy
from tenancy import marks

_CONDITIONS = ("type", "status", "reason", "message", "lastTransitionTime")
_INFO = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)
_INFO_HIDDEN = ("bootID", "kubeProxyVersion", "machineID", "systemUUID")
"""Fields that the API wants present; what would identify the machine is empty."""


def node(super_node: Mapping[str, Any]) -> Object:
    """Return metadata and spec of the virtual node, as they are applied."""
    metadata, spec = super_node["metadata"], super_node.get("spec") or {}
    shown = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if policy.is_visible_node_label(key)
    }
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        for taint in spec.get("taints") or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": metadata["name"],
            "labels": {**shown, marks.VIRTUAL_NODE: "true"},
            "annotations": {marks.UID: metadata["uid"]},
        },
        # Also when empty: the list is owned as a whole, so that a tenant's own taint goes again.
        "spec": {"taints": taints},
    }


def status(super_node: Mapping[str, Any], agent_address: str) -> Object:
    """Return the status of the virtual node."""
    there = super_node.get("status") or {}
    info = there.get("nodeInfo") or {}
    addresses = [
        {"type": address["type"], "address": address["address"]}
        for address in there.get("addresses") or ()
        if address.get("type") == "InternalIP"
    ]
    if agent_address:
        addresses.append({"type": marks.AGENT_ADDRESS, "address": agent_address})
    found: Object = {
        "addresses": addresses,
        "allocatable": dict(there.get("allocatable") or {}),
        "capacity": dict(there.get("capacity") or {}),
        "conditions": [
            {key: condition[key] for key in _CONDITIONS if condition.get(key)}
            for condition in there.get("conditions") or ()
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": marks.AGENT_PORT}},
        "nodeInfo": {
            **{key: info.get(key, "") for key in _INFO},
            **dict.fromkeys(_INFO_HIDDEN, ""),
        },
    }
    for field in ("declaredFeatures", "features"):
        if there.get(field):
            found[field] = there[field]
    return found


def is_node_shown(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Tell whether metadata and spec are as wanted; what the tenant added stays."""
    metadata, target = virtual_node["metadata"], wanted["metadata"]
    for field in ("labels", "annotations"):
        there = metadata.get(field) or {}
        if any(there.get(key) != value for key, value in target[field].items()):
            return False
    extra = {
        key
        for key in metadata.get("labels") or {}
        if key in policy.VISIBLE_NODE_LABELS and key not in target["labels"]
    }
    taints = [
        {key: value for key, value in taint.items() if key != "timeAdded"}
        for taint in (virtual_node.get("spec") or {}).get("taints") or ()
    ]
    return not extra and taints == wanted["spec"]["taints"]


def is_status_shown(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Tell whether the status is as wanted."""
    there = virtual_node.get("status") or {}
    conditions = [
        {key: condition[key] for key in _CONDITIONS if condition.get(key)}
        for condition in there.get("conditions") or ()
    ]
    return {**there, "conditions": conditions} == wanted


def is_ours(virtual_node: Mapping[str, Any]) -> bool:
    """Tell whether we made a node of a tenant: it records the super node's UID."""
    annotations = virtual_node["metadata"].get("annotations") or {}
    return bool(annotations.get(marks.UID))


def is_complete(virtual_node: Mapping[str, Any]) -> bool:
    """Tell whether a node says where it is, so that a pod can be bound to it."""
    return bool((virtual_node.get("status") or {}).get("addresses"))
