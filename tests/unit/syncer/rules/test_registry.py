"""The table of kinds, the access derived from it, and the conditions."""

from __future__ import annotations

from syncer.clusters.super_cluster import OWNED
from syncer.rules import registry
from syncer.rules.registry import KINDS, Life
from syncer.tenants.connection import WATCHED


def test_every_kind_is_watched_on_both_sides():
    watched = {resource.kind for resource, _, _ in WATCHED}
    owned = {resource.kind for resource in OWNED}
    for row in KINDS:
        assert row.resource.kind in watched
        assert row.resource.kind in owned
        assert registry.BY_NAME[row.resource.kind] is row


def test_a_row_that_generic_code_runs_is_complete():
    for row in KINDS:
        if row.life is not Life.POD:
            assert row.build is not None
            assert row.change is not None
