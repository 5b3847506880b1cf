"""Fixtures of the syncer's unit tests."""

from tests.support.syncer.two_clusters import split

__all__ = ["split"]
