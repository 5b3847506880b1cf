"""What a tenant added to its nodes, kept at hand: for most tenants that is nothing.

Owns the index and when it is brought up to date. Must not wake anybody. Hazard: each pod that is
made asks it, so it reads a node when that changes and never when it is asked.
"""

from kubeio.cache.store import Store
from syncer.rules.nodes import tenant_node_changes
from syncer.rules.nodes.tenant_node_changes import NONE, Added, Additions
from tenancy import wellknown
from tenancy.policies import NodeView


class NodeIndex:
    """The additions to one tenant's nodes."""

    def __init__(self, shown: Store, below: Store, view: NodeView) -> None:
        """`shown` has the tenant's nodes, `below` the super cluster's."""
        self._shown = shown
        self._below = below
        self._view = view
        self._nodes: dict[str, Added] = {}
        self._additions: Additions | None = NONE

    @property
    def additions(self) -> Additions:
        """What the tenant added to its nodes."""
        if self._additions is None:
            self._additions = tenant_node_changes.together(self._nodes)
        return self._additions

    def has(self, name: str) -> bool:
        """Tell whether the tenant added anything to a node."""
        return name in self._nodes

    def look(self, name: str) -> bool:
        """Take in what a node is now on either side; tells whether its additions are others."""
        before, found = self._nodes.get(name), self._added(name)
        if found == before:
            return False
        if found is None:
            del self._nodes[name]
        else:
            self._nodes[name] = found
        self._additions = None if self._nodes else NONE
        return True

    def _added(self, name: str) -> Added | None:
        """Return the additions to a node, if there are any; a node of another's making has none."""
        shown, below = self._shown.get("", name), self._below.get("", name)
        if shown is None or below is None or shown.annotations.get(wellknown.UID) != below.uid:
            return None
        return tenant_node_changes.added(shown.decode(), below.labels, self._view)
