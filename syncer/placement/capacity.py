"""Free capacity of one super cluster's nodes, by the syncer's own pods.

Owns the sums, kept up to date by cache events. Must not know tenants or grants. Hazards: pods
without the syncer's label are not seen, so free capacity may be used. Capacity that was just
promised must count as used. Otherwise ten pods of one moment would all see the same free room.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kubeio.cache.store import Entry, Store
from syncer.model.unstructured import mapping, mappings
from syncer.rules.nodes import virtual_nodes
from syncer.rules.placement import target_node
from syncer.rules.placement.cluster_scheduler import Amounts, Room, requests_of
from syncer.rules.placement.target_node import Part, Whole
from syncer.rules.pods.pod_status import TERMINAL
from tenancy import wellknown
from tenancy.policies import NodeView

_NOTHING = dict.fromkeys(target_node.NAMES, Decimal(0))


class Inventory:
    """The capacity of one super cluster."""

    def __init__(self, nodes_below: Store, pods_below: Store) -> None:
        """Add the objects in the caches, and subscribe to their changes."""
        self._nodes = nodes_below
        self._used: dict[str, dict[str, Decimal]] = {}
        """Requests of the synced pods by node. Pods without a node have an empty name."""
        self._pods: dict[tuple[str, str], tuple[str, Amounts]] = {}
        self._promised: dict[str, Amounts] = {}
        """By UID of the tenant pod, until its twin is seen."""
        self._rooms: dict[NodeView, list[Room]] = {}
        self._parts: dict[str, Part] = {}
        """The facts of each node."""
        self._whole: Whole | None = None
        self._heard: list[Callable[[], None]] = []
        nodes_below.subscribe(self._node_changed, replay=True)
        pods_below.subscribe(self._pod_changed, replay=True)

    def rooms(self, view: NodeView, name: str = "") -> Sequence[Room]:
        """Return the nodes that accept pods, with the labels that a tenant may select.

        `name` is the tenant's name of each of them. Empty: their own names.
        """
        known = self._rooms.get(view)
        if known is None:
            known = self._rooms[view] = [
                self._room(entry.decode(), view)
                for entry in self._nodes.list()
                if self._gives(entry.name)
            ]
        free = [room._replace(free=self._left(room.name)) for room in known]
        return [room._replace(name=name) for room in free] if name else free

    def free(self) -> Amounts:
        """Return the free capacity of all of them together, less the promised capacity."""
        total = dict(_NOTHING)
        for part in self._parts.values():
            _add(total, part.allocatable)
        for name, used in self._used.items():
            if not name or self._gives(name):  # a cordoned node is left out
                _add(total, used, -1)
        for promised in self._promised.values():
            _add(total, promised, -1)
        return total

    def promise(self, uid: str, requests: Amounts) -> None:
        """Count a pod's requests as used before its twin exists."""
        self._promised[uid] = requests

    def release(self, uid: str) -> None:
        """Forget a promise, because the pod will not be created."""
        self._promised.pop(uid, None)

    @property
    def whole(self) -> Whole:
        """All nodes together, summed once for all tenants after each change of a node's part."""
        if self._whole is None:
            self._whole = target_node.whole_of(self._parts.values())
        return self._whole

    def subscribe(self, heard: Callable[[], None]) -> None:
        """Call `heard` whenever the sum of the nodes may have changed."""
        self._heard.append(heard)

    def _gives(self, name: str) -> Amounts:
        """Return the allocatable amounts of a node. Empty if it accepts no pods."""
        part = self._parts.get(name)
        return part.allocatable if part is not None else {}

    def _left(self, name: str) -> Amounts:
        left = dict(self._gives(name))
        _add(left, self._used.get(name, _NOTHING), -1)
        return left

    def _room(self, node: Mapping[str, Any], view: NodeView) -> Room:
        metadata = node["metadata"]
        return Room(
            name=metadata["name"],
            labels=virtual_nodes.shown_labels(mapping(metadata.get("labels")), view),
            taints=mappings(mapping(node.get("spec")).get("taints")),
            free=_NOTHING,
        )

    def _node_changed(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        self._rooms.clear()
        entry = new or old
        if entry is None:
            return
        before = self._parts.pop(entry.name, None)
        if new is not None:
            self._parts[new.name] = target_node.part_of(new.decode())
        if self._parts.get(entry.name) != before:
            self._whole = None
            for heard in self._heard:
                heard()

    def _pod_changed(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is None:
            return
        before = self._pods.pop(entry.key, None)
        if before is not None:
            _add(self._used[before[0]], before[1], -1)
        if new is None:
            return
        self._promised.pop(new.annotations.get(wellknown.UID, ""), None)
        pod = new.decode()
        if mapping(pod.get("status")).get("phase") in TERMINAL:
            return
        spec = mapping(pod.get("spec"))
        node = spec.get("nodeName") or ""
        requests = requests_of(spec)
        self._pods[new.key] = (node, requests)
        _add(self._used.setdefault(node, dict(_NOTHING)), requests)


def _add(total: dict[str, Decimal], amounts: Amounts, times: int = 1) -> None:
    for name, value in amounts.items():
        total[name] = total.get(name, Decimal(0)) + times * value
