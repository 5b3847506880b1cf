"""Changes that a tenant made to its virtual nodes, if they affect where pods may run.

Pure. Owns the detection of the tenant's own labels, of taints that repel pods, and of the cordon.
Must not know pods.

Hazard: a label of the super node must never be counted as the tenant's own. Otherwise it still
takes effect after it was removed from the super node.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from syncer.model.unstructured import mapping
from syncer.rules.nodes import virtual_nodes
from tenancy import wellknown
from tenancy.policies import NodeView

_KEEPING_OFF = frozenset({"NoExecute", "NoSchedule"})


class Taint(NamedTuple):
    """Taint that repels pods from a node."""

    key: str
    value: str
    effect: str


class Added(NamedTuple):
    """Changes of a tenant to one node."""

    own: frozenset[str]
    """Keys of the labels that are the tenant's own."""
    labels: Mapping[str, str]
    """All labels of the node, as the tenant sees them."""
    taints: tuple[Taint, ...]
    is_cordoned: bool


class Additions(NamedTuple):
    """Changes of a tenant to all its nodes. Unchanged nodes are not included."""

    nodes: Mapping[str, Added]
    closing: Mapping[str, Added]
    """The changed nodes that have a taint or a cordon."""
    label_keys: frozenset[str]
    taint_keys: frozenset[str]


NONE = Additions({}, {}, frozenset(), frozenset())


def added(
    virtual_node: Mapping[str, Any], super_labels: Mapping[str, str], view: NodeView
) -> Added | None:
    """Return the changes of a tenant to a virtual node. None if there are none that affect pods."""
    labels = {
        key: value
        for key, value in mapping(mapping(virtual_node.get("metadata")).get("labels")).items()
        if isinstance(value, str)
    }
    shown = virtual_nodes.shown_labels(super_labels, view)
    own = frozenset(key for key in labels if key not in shown and not wellknown.is_reserved(key))
    taints = tuple(
        Taint(*(str(taint.get(field, "")) for field in Taint._fields))
        for taint in virtual_nodes.own_taints(virtual_node)
        if str(taint.get("effect")) in _KEEPING_OFF
    )
    is_cordoned = mapping(virtual_node.get("spec")).get("unschedulable") is True
    if not (own or taints or is_cordoned):
        return None
    return Added(own, labels, taints, is_cordoned)


def together(found: Mapping[str, Added]) -> Additions:
    """Return the changes to all nodes, in the order of their names."""
    ordered = dict(sorted(found.items()))
    return Additions(
        ordered,
        {name: each for name, each in ordered.items() if each.taints or each.is_cordoned},
        frozenset(key for each in ordered.values() for key in each.own),
        frozenset(taint.key for each in ordered.values() for taint in each.taints),
    )
