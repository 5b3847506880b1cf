"""Free capacity of one super cluster's nodes, by the syncer's own pods.

Owns the sums, kept up to date by cache events. Must not know tenants or grants. Hazards: pods
without the syncer's label are not seen, so free capacity may be used. Capacity that was just
promised must count as used. Otherwise ten pods of one moment would all see the same free room.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kubeio.cache.store import Entry, Store
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.nodes import node_pool, virtual_nodes
from syncer.rules.placement import target_node
from syncer.rules.placement.cluster_scheduler import NodeCapacity, ResourceAmounts, compute_requests
from syncer.rules.placement.target_node import NodeShare, NodeTotals
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, NodesSpec, NodeView

_ZERO_AMOUNTS = dict.fromkeys(target_node.SUMMED_RESOURCES, Decimal(0))


class ClusterCapacity:
    """The capacity of one super cluster."""

    def __init__(self, super_nodes: Store, super_pods: Store) -> None:
        """Add the objects in the caches, and subscribe to their changes."""
        self._nodes = super_nodes
        self._used: dict[str, dict[str, Decimal]] = {}
        """Requests of the synced pods by node. Pods without a node have an empty name."""
        self._pods: dict[tuple[str, str], tuple[str, ResourceAmounts]] = {}
        self._reserved: dict[str, ResourceAmounts] = {}
        """By UID of the tenant pod, until its twin is seen."""
        self._node_capacities: dict[NodeView, list[NodeCapacity]] = {}
        self._node_shares: dict[str, NodeShare] = {}
        """The facts of each node."""
        self._node_totals: NodeTotals | None = None
        self._handlers: list[Callable[[], None]] = []
        super_nodes.subscribe(self._handle_node, replay=True)
        super_pods.subscribe(self._handle_pod, replay=True)

    def list_nodes(
        self, view: NodeView, name: str = "", pool: NodesSpec = BASELINE_POLICY.nodes
    ) -> Sequence[NodeCapacity]:
        """Return the nodes that accept pods, with the labels that a tenant may select.

        `name` is the tenant's name of each of them. Empty: their own names. `pool` is the tenant's
        node pool. Taints that all its pods tolerate are left out. A pod may name the pool's labels
        also if the tenant's nodes hide them.
        """
        known = self._node_capacities.get(view)
        if known is None:
            known = self._node_capacities[view] = [
                self._build_node_capacity(entry.decode(), view)
                for entry in self._nodes.list()
                if self._get_allocatable(entry.name)
            ]
        free = [
            room._replace(
                free=self._get_free(room.name),
                labels={**room.labels, **pool.selector},
                taints=node_pool.remove_pool_taints(room.taints, pool),
            )
            for room in known
            if self._is_in_pool(room.name, pool)
        ]
        return [room._replace(name=name) for room in free] if name else free

    def _is_in_pool(self, name: str, pool: NodesSpec) -> bool:
        entry = self._nodes.get("", name)
        return entry is not None and node_pool.is_in_pool(entry.labels, pool)

    def compute_free(self) -> ResourceAmounts:
        """Return the free capacity of all of them together, less the promised capacity."""
        total = dict(_ZERO_AMOUNTS)
        for part in self._node_shares.values():
            _add(total, part.allocatable)
        for name, used in self._used.items():
            if not name or self._get_allocatable(name):  # a cordoned node is left out
                _add(total, used, -1)
        for promised in self._reserved.values():
            _add(total, promised, -1)
        return total

    def reserve(self, uid: str, requests: ResourceAmounts) -> None:
        """Count a pod's requests as used before its twin exists."""
        self._reserved[uid] = requests

    def release(self, uid: str) -> None:
        """Forget a promise, because the pod will not be created."""
        self._reserved.pop(uid, None)

    @property
    def node_totals(self) -> NodeTotals:
        """All nodes together, summed once for all tenants after each change of a node's part."""
        if self._node_totals is None:
            self._node_totals = target_node.sum_nodes(self._node_shares.values())
        return self._node_totals

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call `heard` whenever the sum of the nodes may have changed."""
        self._handlers.append(handler)

    def _get_allocatable(self, name: str) -> ResourceAmounts:
        """Return the allocatable amounts of a node. Empty if it accepts no pods."""
        part = self._node_shares.get(name)
        return part.allocatable if part is not None else {}

    def _get_free(self, name: str) -> ResourceAmounts:
        left = dict(self._get_allocatable(name))
        _add(left, self._used.get(name, _ZERO_AMOUNTS), -1)
        return left

    def _build_node_capacity(self, node: Mapping[str, Any], view: NodeView) -> NodeCapacity:
        metadata = node["metadata"]
        return NodeCapacity(
            name=metadata["name"],
            labels=virtual_nodes.filter_labels(as_mapping(metadata.get("labels")), view),
            taints=as_mappings(as_mapping(node.get("spec")).get("taints")),
            free=_ZERO_AMOUNTS,
        )

    def _handle_node(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        self._node_capacities.clear()
        entry = new or old
        if entry is None:
            return
        before = self._node_shares.pop(entry.name, None)
        if new is not None:
            self._node_shares[new.name] = target_node.build_share(new.decode())
        if self._node_shares.get(entry.name) != before:
            self._node_totals = None
            for heard in self._handlers:
                heard()

    def _handle_pod(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is None:
            return
        before = self._pods.pop(entry.key, None)
        if before is not None:
            _add(self._used[before[0]], before[1], -1)
        if new is None:
            return
        self._reserved.pop(new.annotations.get(wellknown.UID, ""), None)
        pod = new.decode()
        if as_mapping(pod.get("status")).get("phase") in wellknown.TERMINAL_PHASES:
            return
        spec = as_mapping(pod.get("spec"))
        node = spec.get("nodeName") or ""
        requests = compute_requests(spec)
        self._pods[new.key] = (node, requests)
        _add(self._used.setdefault(node, dict(_ZERO_AMOUNTS)), requests)


def _add(total: dict[str, Decimal], amounts: ResourceAmounts, times: int = 1) -> None:
    for name, value in amounts.items():
        total[name] = total.get(name, Decimal(0)) + times * value
