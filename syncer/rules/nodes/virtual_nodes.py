"""Virtual nodes: the tenant's view of the super nodes that its pods run on.

Pure. Owns the visible leaves of a node, and the detection of the tenant's own taints. A virtual
node exists from before the first binding until no pod object names it any longer. It stays longer
while the tenant has its own labels or taints on it. It has no lease and no heartbeat, and changes
only on an event.

Hazard: times that advance by themselves (heartbeats) must be left out. Otherwise every node would
be written for every tenant every few minutes.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from kubeio import Object
from syncer.model import builtin_policy
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.nodes import node_pool
from syncer.rules.nodes.node_agents import NodeAgent
from tenancy import wellknown
from tenancy.conditions import format_time
from tenancy.policies import BASELINE_POLICY, NodesSpec, NodeView

_CONDITION_FIELDS = ("type", "status", "reason", "message", "lastTransitionTime")
_AMOUNT_FIELDS = ("allocatable", "capacity")
MIRRORED_FIELDS = ("declaredFeatures", "features")
"""Fields that are synced back unchanged, if the tenant's API knows them."""
_DIGEST_LENGTH = 16
_REMOVABLE_FIELDS = ("declaredFeatures", "features")
"""Fields that a node may lose."""
_NODE_INFO_FIELDS = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)
_VIA_API_SERVER_MESSAGE = (
    "Logs, exec, attach and port-forward go through the super cluster's API server. Pod metrics"
    " (`kubectl top`) and `run` are not available on this node."
)
_NO_AGENT_CONDITION = (
    "Unknown",
    "NoAgent",
    "No node agent runs on this node: logs, exec, attach and port-forward do not work here.",
)
_UPSTREAM_CONDITIONS: Mapping[str, tuple[str, str, str]] = {
    wellknown.UPSTREAM_KUBELET: (
        "True",
        "Kubelet",
        "Calls for pods on this node go directly to its kubelet.",
    ),
    wellknown.UPSTREAM_API_SERVER: (
        "False",
        "KubeletUntrusted",
        f"The certificate of the node's kubelet does not verify. {_VIA_API_SERVER_MESSAGE}",
    ),
    wellknown.UPSTREAM_CONFIGURED: (
        "False",
        "Configured",
        f"By configuration, the kubelet is not used. {_VIA_API_SERVER_MESSAGE}",
    ),
}
"""Status, reason and message of the condition, by the route of the node's agent."""
_SHOWN_ANNOTATIONS = ("volumes.kubernetes.io/controller-managed-attach-detach",)
"""Annotations that reveal neither the machine nor other tenants.

An annotation whose value follows the size of the cluster would cause a write per node and tenant.
"""
_HIDDEN_NODE_INFO_FIELDS = ("bootID", "kubeProxyVersion", "machineID", "systemUUID")
"""Fields that the API requires. They are empty, because their values would identify the machine."""


def build_node(
    super_node: Mapping[str, Any],
    view: NodeView = "Standard",
    virtual_node: Mapping[str, Any] | None = None,
    pool: NodesSpec = BASELINE_POLICY.nodes,
) -> Object:
    """Return metadata and spec of the virtual node, for server-side apply.

    `pool` is the tenant's node pool. Taints that all its pods tolerate are left out.

    The API treats the taints as one list with one owner, so the list includes the tenant's own
    taints.
    """
    metadata, spec = super_node["metadata"], super_node.get("spec") or {}
    shown = filter_labels(metadata.get("labels") or {}, view)
    there = metadata.get("annotations") or {}
    annotations = {key: there[key] for key in _SHOWN_ANNOTATIONS if key in there}
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        for taint in node_pool.remove_pool_taints(spec.get("taints") or (), pool)
    ]
    ours = {_build_taint_key(taint) for taint in taints}
    own = [
        taint
        for taint in list_own_taints(virtual_node or {})
        if _build_taint_key(taint) not in ours
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": metadata["name"],
            "labels": {**shown, wellknown.VIRTUAL_NODE: "true"},
            "annotations": {
                **annotations,
                wellknown.UID: metadata["uid"],
                wellknown.LAST_WRITTEN_DIGEST: _compute_digest(super_node, (*shown, *annotations)),
                wellknown.TAINTS: ",".join(sorted(ours)),
            },
        },
        # Written even if it is empty. The whole list is owned, so this removes a taint that was
        # removed from the super node.
        "spec": {"taints": [*taints, *own]},
    }


def filter_labels(labels: Mapping[str, str], view: NodeView) -> dict[str, str]:
    """Return the labels of a super node that a tenant sees."""
    return {
        key: value
        for key, value in labels.items()
        if builtin_policy.is_visible_node_label(key, view)
    }


def list_own_taints(virtual_node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the taints of a virtual node that its tenant added.

    A node that was created before taints were recorded has none.
    """
    annotations = as_mapping(as_mapping(virtual_node.get("metadata")).get("annotations"))
    recorded = annotations.get(wellknown.TAINTS)
    if recorded is None and annotations.get(wellknown.UID):
        return []
    ours = frozenset(str(recorded or "").split(","))
    taints = as_mappings(as_mapping(virtual_node.get("spec")).get("taints"))
    return [taint for taint in taints if _build_taint_key(taint) not in ours]


def _map_taint_values(taints: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {_build_taint_key(taint): str(taint.get("value") or "") for taint in taints}


def _build_taint_key(taint: Mapping[str, Any]) -> str:
    """Return the key that the API requires to be unique among the taints of a node."""
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


def _compute_digest(super_node: Mapping[str, Any], metadata_keys: Collection[str]) -> str:
    """Return a digest that changes when an entry is no longer shown.

    Entries are labels, annotations, conditions and resources.

    An apply without the entry removes it. The digest distinguishes an entry that was removed from
    the super node from an entry that the tenant added. Only names are included, not values.
    """
    there = super_node.get("status") or {}
    names = [
        sorted(metadata_keys),
        sorted(str(condition.get("type")) for condition in list_shown_conditions(there)),
        *(sorted(there.get(field) or {}) for field in _AMOUNT_FIELDS),
    ]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:_DIGEST_LENGTH]


def build_status(
    super_node: Mapping[str, Any],
    agent: NodeAgent | None,
    view: NodeView = "Standard",
    virtual_node: Mapping[str, Any] | None = None,
    *,
    now: datetime,
) -> Object:
    """Return the status of the virtual node. `virtual_node` is the existing one, if any."""
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
        # The API omits an empty list, so an empty list here would always differ.
        **({"addresses": addresses} if addresses else {}),
        "allocatable": dict(there.get("allocatable") or {}),
        "capacity": dict(there.get("capacity") or {}),
        "conditions": [
            *(
                {key: condition[key] for key in _CONDITION_FIELDS if condition.get(key)}
                for condition in list_shown_conditions(there)
            ),
            _build_kubelet_direct_condition(agent, virtual_node, now),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": wellknown.AGENT_PORT}},
        "nodeInfo": {
            **{key: info.get(key, "") for key in _NODE_INFO_FIELDS},
            **dict.fromkeys(_HIDDEN_NODE_INFO_FIELDS, ""),
        },
    }
    for field in MIRRORED_FIELDS:
        if there.get(field):
            found[field] = there[field]
    return found


def list_shown_conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions of a super node that its tenant sees.

    The syncer's own conditions are left out, because they are written here once.
    """
    found = as_mappings(status.get("conditions"))
    return [each for each in found if not wellknown.is_reserved_key(str(each.get("type") or ""))]


def _build_kubelet_direct_condition(
    agent: NodeAgent | None, virtual_node: Mapping[str, Any] | None, now: datetime
) -> Object:
    """Return the condition on how kubelet requests reach the node, with its reason."""
    status, reason, message = (
        _UPSTREAM_CONDITIONS[agent.upstream_reason] if agent is not None else _NO_AGENT_CONDITION
    )
    before: Mapping[str, Any] = {}
    for each in as_mappings(as_mapping(as_mapping(virtual_node).get("status")).get("conditions")):
        if each.get("type") == wellknown.KUBELET_DIRECT and each.get("status") == status:
            before = each
    return {
        "type": wellknown.KUBELET_DIRECT,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before.get("lastTransitionTime") or format_time(now),
    }


def is_node_current(virtual_node: Mapping[str, Any], wanted: Object) -> bool:
    """Return whether metadata and spec are as wanted. The tenant's additions stay.

    `wanted` was built from the same virtual node, so it includes the tenant's taints.
    """
    metadata, target = virtual_node["metadata"], wanted["metadata"]
    for field in ("labels", "annotations"):
        there = metadata.get(field) or {}
        if any(there.get(key) != value for key, value in target[field].items()):
            return False
    taints = (virtual_node.get("spec") or {}).get("taints") or ()
    # The order is ignored, because a tenant's tools put their taints first.
    return _map_taint_values(taints) == _map_taint_values(wanted["spec"]["taints"])


def is_status_current(virtual_node: Mapping[str, Any], wanted: Object, digest: str) -> bool:
    """Return whether the status is as wanted. The tenant's conditions and amounts stay.

    `digest` is the digest that the node's metadata should have. If it differs, an entry must be
    removed.
    """
    if (virtual_node["metadata"].get("annotations") or {}).get(
        wellknown.LAST_WRITTEN_DIGEST
    ) != digest:
        return False
    there = virtual_node.get("status") or {}
    conditions = {
        condition.get("type"): {
            key: condition[key] for key in _CONDITION_FIELDS if condition.get(key)
        }
        for condition in there.get("conditions") or ()
    }
    for field, value in wanted.items():
        if field == "conditions":
            if any(conditions.get(condition["type"]) != condition for condition in value):
                return False
        elif field in _AMOUNT_FIELDS:
            found = there.get(field) or {}
            if any(found.get(name) != amount for name, amount in value.items()):
                return False
        elif field == "addresses":
            continue
        elif there.get(field) != value:
            return False
    if _list_own_addresses(there) != _list_own_addresses(wanted):
        return False
    return all(field in wanted or not there.get(field) for field in _REMOVABLE_FIELDS)


def _list_own_addresses(status: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the addresses in a status of the types that the syncer writes.

    A tenant may have added addresses of other types, which server-side apply keeps.
    """
    listed = as_mappings(status.get("addresses"))
    return [
        (each["type"], each.get("address")) for each in listed if each.get("type") in _OWN_TYPES
    ]


_OWN_TYPES = frozenset({"InternalIP", wellknown.AGENT_ADDRESS})


def is_own_node(virtual_node: Mapping[str, Any]) -> bool:
    """Return whether the syncer created a tenant's node: it records the super node's UID."""
    annotations = virtual_node["metadata"].get("annotations") or {}
    return bool(annotations.get(wellknown.UID))


def has_own_status(virtual_node: Mapping[str, Any]) -> bool:
    """Return whether a node has the syncer's status, so that a pod can be bound to it."""
    endpoints = (virtual_node.get("status") or {}).get("daemonEndpoints") or {}
    return bool((endpoints.get("kubeletEndpoint") or {}).get("Port") == wellknown.AGENT_PORT)
