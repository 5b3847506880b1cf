"""Targets of one tenant: granted ones, and those that may have objects of the tenant.

Owns these two sets and the wait for a target that connects. Must not know single pods. Hazard: no
pod may be created while a target that may have its twin was never checked. Otherwise there would be
two pods.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from syncer.model.keys import HOME
from tenancy.specs import TargetGrant

CONNECTING_SECONDS = 10.0
"""Time in seconds that pods wait for a target that was granted or reconnected a moment ago."""


class TargetGrants:
    """The grants of one tenant, and the targets in its status."""

    def __init__(self, list_connected: Callable[[], Collection[str]]) -> None:
        """`list_connected` returns the super clusters whose caches are read."""
        self._list_connected = list_connected
        self._granted: Mapping[str, TargetGrant] = {}
        self._known: frozenset[str] | None = None
        self._unused: frozenset[str] = frozenset()
        self._used: set[str] = set()
        self._connecting_until: dict[str, float] = {}

    @property
    def granted(self) -> Mapping[str, TargetGrant]:
        """Grants of the tenant by name. Empty: the home cluster only."""
        return self._granted

    @property
    def is_status_read(self) -> bool:
        """Whether the status has been read. Until then no pod has an assigned cluster."""
        return self._known is not None

    def update_granted(self, granted: Mapping[str, TargetGrant]) -> None:
        """Replace the grants. Pods are assigned by these grants from now on."""
        self._granted = granted

    def update_known(self, named: Collection[str], wanted: Collection[str]) -> None:
        """Replace the targets that may have objects of the tenant.

        `named` are those in the status. `wanted` are those that the status must name before any
        object is created in them.
        """
        added = {*wanted} - {*named}
        self._unused = frozenset({*self._unused, *added} - self._used)
        self._known = frozenset({*named, *wanted})

    def mark_used(self, name: str) -> None:
        """Record that objects of the tenant may be created in a target from now on."""
        self._used.add(name)
        self._unused -= {name}

    def is_known(self, name: str) -> bool:
        """Return True if a target may have objects of the tenant."""
        return name in (self._known or ())

    def is_unused(self, name: str) -> bool:
        """Return True if no object of the tenant was ever created in a known target."""
        return name in self._unused

    def is_offered(self, name: str) -> bool:
        """Return True if pods may be created in a super cluster.

        The home cluster takes part if it is granted by name or nothing is granted.
        """
        return name in self._granted if self._granted else name == HOME

    def mark_connecting(self, name: str, now: float) -> None:
        """Record that a target will connect soon, for the first time or again."""
        self._connecting_until[name] = now + CONNECTING_SECONDS

    def must_wait_for(self, unreached: Iterable[str], now: float) -> bool:
        """Return True while a newly granted or reconnecting target is within `CONNECTING_SECONDS`.

        Without this wait, pods created during a credential rotation are placed elsewhere
        permanently.
        """
        return any(now < self._connecting_until.get(name, now) for name in unreached)

    def find_unchecked(self) -> str:
        """Return a target that may have twins and was never checked, or an empty string."""
        if self._known is None:
            return "another cluster"
        return min(self._known - self._unused - {*self._list_connected()}, default="")
