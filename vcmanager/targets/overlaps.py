"""Identities and address ranges of the other SuperClusters.

Pure. Hazard: two SuperClusters must not name one cluster, so `home`, or else the older one, keeps
it. Otherwise each of its objects would have two owners.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tenancy import super_clusters
from tenancy.specs import SpecProblemError
from tenancy.super_clusters import HOME, Ranges, SuperClusterStatus

Body = Mapping[str, Any]


class Neighbours:
    """All SuperClusters, from the view of one of them."""

    def __init__(self, name: str, listed: Iterable[Body]) -> None:
        """Index the SuperClusters. `listed` may include the one called `name`."""
        found = {str(each["metadata"]["name"]): each for each in listed}
        self.mine = found.pop(name, None)
        """The SuperCluster itself. None after its deletion."""
        self._others = found

    @property
    def names(self) -> list[str]:
        """Return the names of the other SuperClusters."""
        return sorted(self._others)

    @property
    def home(self) -> SuperClusterStatus | None:
        """Return the status of the home cluster, or None while its version is unknown."""
        body = self._others.get(HOME)
        status = status_of(body) if body is not None else None
        return status if status is not None and status.version else None

    def ranges(self) -> dict[str, Ranges]:
        """Return the address ranges of the other SuperClusters, by name."""
        return {name: status_of(each).network for name, each in self._others.items()}

    def same(self, identity: str) -> str:
        """Return the name of an earlier SuperCluster with this identity, or an empty text."""
        if self.mine is None or not identity:
            return ""
        for name, each in sorted(self._others.items()):
            is_earlier = name == HOME or _age(each) < _age(self.mine)
            if is_earlier and status_of(each).identity == identity:
                return name
        return ""


def status_of(body: Body) -> SuperClusterStatus:
    """Return the parsed status of a SuperCluster. An invalid status counts as empty."""
    try:
        return super_clusters.parse_status(body)
    except SpecProblemError:
        return SuperClusterStatus()


def _age(body: Body) -> tuple[str, str]:
    metadata = body["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])
