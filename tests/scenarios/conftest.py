"""Fixtures of the scenarios."""

from tests.support.syncer.two_clusters import split

__all__ = ["split"]
