"""The table of kinds, the access derived from it, and the conditions."""

from __future__ import annotations

import re
from pathlib import Path

import syncer
from syncer.clusters.super_cluster import OWNED_RESOURCES
from syncer.rules import registry
from syncer.rules.registry import KINDS, KeyReconciler
from syncer.rules.tenant_resources import WATCHED_RESOURCES


def test_every_kind_is_watched_on_both_sides():
    watched = {resource.kind for resource, _, _ in WATCHED_RESOURCES}
    owned = {resource.kind for resource in OWNED_RESOURCES}
    for row in KINDS:
        assert row.resource.kind in watched
        assert row.resource.kind in owned
        assert registry.KINDS_BY_NAME[row.resource.kind] is row


def test_a_row_that_generic_code_runs_is_complete():
    for row in KINDS:
        if row.reconciler is not KeyReconciler.POD:
            assert row.build is not registry.build_not_generic
            assert row.change is not registry.change_not_generic


def test_reconcilers_get_the_table_from_their_session():
    """The process passes it to the clusters, so that a session can have another one."""
    table = re.compile(r"\bKINDS(_BY_NAME)?\b")
    modules = sorted((Path(syncer.__file__).parent / "controllers").rglob("*.py"))
    assert modules
    assert [path.name for path in modules if table.search(path.read_text())] == []
