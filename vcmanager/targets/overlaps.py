"""Identities and address ranges of the other SuperClusters.

Pure. Hazard: two SuperClusters must not name one cluster, so `home_status`, or else the older one,
keeps it. Otherwise each of its objects would have two owners.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tenancy import super_clusters
from tenancy.specs import InvalidSpecError
from tenancy.super_clusters import HOME, ClusterRanges, SuperClusterStatus

SuperClusterBody = Mapping[str, Any]


class PeerClusters:
    """All SuperClusters, from the view of one of them."""

    def __init__(self, name: str, listed: Iterable[SuperClusterBody]) -> None:
        """Index the SuperClusters. `listed` may include the one called `name`."""
        found = {str(each["metadata"]["name"]): each for each in listed}
        self.own = found.pop(name, None)
        """The SuperCluster itself. None after its deletion."""
        self._others = found

    @property
    def list_names(self) -> list[str]:
        """Return the names of the other SuperClusters."""
        return sorted(self._others)

    @property
    def home_status(self) -> SuperClusterStatus | None:
        """Return the status of the home cluster, or None while its version is unknown."""
        body = self._others.get(HOME)
        status = read_status(body) if body is not None else None
        return status if status is not None and status.version else None

    def get_ranges(self) -> dict[str, ClusterRanges]:
        """Return the address ranges of the other SuperClusters, by name."""
        return {name: read_status(each).network for name, each in self._others.items()}

    def find_duplicate(self, identity: str) -> str:
        """Return the name of an earlier SuperCluster with this identity, or an empty text."""
        if self.own is None or not identity:
            return ""
        for name, each in sorted(self._others.items()):
            is_earlier = name == HOME or _rank_by_age(each) < _rank_by_age(self.own)
            if is_earlier and read_status(each).identity == identity:
                return name
        return ""


def read_status(body: SuperClusterBody) -> SuperClusterStatus:
    """Return the parsed status of a SuperCluster. An invalid status counts as empty."""
    try:
        return super_clusters.parse_status(body)
    except InvalidSpecError:
        return SuperClusterStatus()


def _rank_by_age(body: SuperClusterBody) -> tuple[str, str]:
    metadata = body["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])
