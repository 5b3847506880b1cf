"""Fixtures of the syncer's unit tests."""

from tests.support.syncer.two_api_servers import pair
from tests.support.syncer.two_clusters import split

__all__ = ["pair", "split"]
