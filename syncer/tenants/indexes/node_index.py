"""Index of a tenant's own changes to its virtual nodes. Most tenants make none.

Owns the index and its updates. Must not queue keys. Hazard: a node must be read when it changes,
never in a lookup. Each pod that is created makes a lookup.
"""

from kubeio.cache.store import Store
from syncer.rules.nodes import tenant_node_changes
from syncer.rules.nodes.tenant_node_changes import NO_CHANGES, NodeAdditions, TenantNodeChanges
from tenancy import wellknown
from tenancy.policies import NodeView


class NodeIndex:
    """The tenant's changes to its nodes."""

    def __init__(self, shown: Store, super_nodes: Store, view: NodeView) -> None:
        """`shown` has the tenant's nodes, `below` the super cluster's."""
        self._shown = shown
        self._super_nodes = super_nodes
        self._view = view
        self._nodes: dict[str, NodeAdditions] = {}
        self._additions: TenantNodeChanges | None = NO_CHANGES

    @property
    def additions(self) -> TenantNodeChanges:
        """The changes that the tenant made to its nodes."""
        if self._additions is None:
            self._additions = tenant_node_changes.combine_additions(self._nodes)
        return self._additions

    def has(self, name: str) -> bool:
        """Return True if the tenant changed a node."""
        return name in self._nodes

    def update(self, name: str) -> bool:
        """Update the index from both sides of a node. Returns True if the index changed."""
        before, found = self._nodes.get(name), self._compute_additions(name)
        if found == before:
            return False
        if found is None:
            del self._nodes[name]
        else:
            self._nodes[name] = found
        self._additions = None if self._nodes else NO_CHANGES
        return True

    def _compute_additions(self, name: str) -> NodeAdditions | None:
        """Return the tenant's changes to a node, or None.

        A node that the syncer did not create has none.
        """
        shown, below = self._shown.get("", name), self._super_nodes.get("", name)
        if shown is None or below is None or shown.annotations.get(wellknown.UID) != below.uid:
            return None
        return tenant_node_changes.read_additions(shown.decode(), below.labels, self._view)
