"""Changes that a tenant made to its virtual nodes, if they affect where pods may run.

Pure. Owns the detection of the tenant's own labels, of taints that repel pods, and of the cordon.
Must not know pods.

Hazard: a label of the super node must never be counted as the tenant's own. Otherwise it still
takes effect after it was removed from the super node.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from syncer.model.unstructured import as_mapping
from syncer.rules.nodes import virtual_nodes
from tenancy import wellknown
from tenancy.policies import NodeView

_SCHEDULING_EFFECTS = frozenset({"NoExecute", "NoSchedule"})


class TenantTaint(NamedTuple):
    """Taint that repels pods from a node."""

    key: str
    value: str
    effect: str


class NodeAdditions(NamedTuple):
    """Changes of a tenant to one node."""

    own_label_keys: frozenset[str]
    """Keys of the labels that are the tenant's own."""
    labels: Mapping[str, str]
    """All labels of the node, as the tenant sees them."""
    taints: tuple[TenantTaint, ...]
    is_cordoned: bool


class TenantNodeChanges(NamedTuple):
    """Changes of a tenant to all its nodes. Unchanged nodes are not included."""

    nodes: Mapping[str, NodeAdditions]
    closed_nodes: Mapping[str, NodeAdditions]
    """The changed nodes that have a taint or a cordon."""
    label_keys: frozenset[str]
    taint_keys: frozenset[str]


NO_CHANGES = TenantNodeChanges({}, {}, frozenset(), frozenset())


def read_additions(
    virtual_node: Mapping[str, Any], super_labels: Mapping[str, str], view: NodeView
) -> NodeAdditions | None:
    """Return the changes of a tenant to a virtual node. None if there are none that affect pods."""
    labels = {
        key: value
        for key, value in as_mapping(as_mapping(virtual_node.get("metadata")).get("labels")).items()
        if isinstance(value, str)
    }
    shown = virtual_nodes.filter_labels(super_labels, view)
    own = frozenset(
        key for key in labels if key not in shown and not wellknown.is_reserved_key(key)
    )
    taints = tuple(
        TenantTaint(*(str(taint.get(field, "")) for field in TenantTaint._fields))
        for taint in virtual_nodes.list_own_taints(virtual_node)
        if str(taint.get("effect")) in _SCHEDULING_EFFECTS
    )
    is_cordoned = as_mapping(virtual_node.get("spec")).get("unschedulable") is True
    if not (own or taints or is_cordoned):
        return None
    return NodeAdditions(own, labels, taints, is_cordoned)


def combine_additions(found: Mapping[str, NodeAdditions]) -> TenantNodeChanges:
    """Return the changes to all nodes, in the order of their names."""
    ordered = dict(sorted(found.items()))
    return TenantNodeChanges(
        ordered,
        {name: each for name, each in ordered.items() if each.taints or each.is_cordoned},
        frozenset(key for each in ordered.values() for key in each.own_label_keys),
        frozenset(taint.key for each in ordered.values() for taint in each.taints),
    )
