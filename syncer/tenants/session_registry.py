"""Registry of the sessions of all tenants.

Owns the sessions by super cluster and tenant. Must not start or stop them.
"""

from collections.abc import Mapping

from syncer.model.keys import HOME
from syncer.tenants.session import Session, Sessions


class SessionRegistry:
    """The sessions of all tenants."""

    def __init__(self) -> None:
        self._by_cluster: dict[str, dict[str, Session]] = {HOME: {}}

    @property
    def sessions(self) -> Sessions:
        """All sessions. The mapping follows later changes."""
        return self._by_cluster

    def of_cluster(self, name: str) -> Mapping[str, Session]:
        """Return the sessions with a super cluster, by UID of the VirtualCluster.

        The mapping follows later changes.
        """
        return self._by_cluster.setdefault(name, {})

    def add(self, session: Session) -> None:
        """Add a session. Its keys are reconciled once it is ready."""
        self._by_cluster.setdefault(session.name, {})[session.tenant.uid] = session

    def remove(self, session: Session) -> None:
        """Remove a session, unless that was done before."""
        self._by_cluster.get(session.name, {}).pop(session.tenant.uid, None)
