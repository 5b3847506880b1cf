"""Kinds of SyncRules that are served on both sides, and those whose copies must go."""

from __future__ import annotations

import pytest

from syncer.tenants.ruled_kind_state import RuledKindState
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.syncer.sessions import SessionWorld

SPEC = {
    "resource": {"group": "example.com", "version": "v1", "kind": "Widget", "plural": "widgets"},
    "direction": "Down",
}


@pytest.fixture
def world() -> SessionWorld:
    return SessionWorld(rules=[parse_sync_rule({"metadata": {"name": "r"}, "spec": SPEC})])


@pytest.mark.parametrize("side", ["tenant", "super"])
def test_a_kind_is_served_while_both_caches_are_complete(world: SessionWorld, side: str):
    session = world.session
    assert session.ruled.is_served("Widget")
    stores = session.stores if side == "tenant" else session.super_cluster.stores
    stores["Widget"].synced = False
    assert not session.ruled.is_served("Widget")
    assert session.ruled.is_served("Pod")


def test_a_kind_without_a_cache_in_the_super_cluster_is_not_served(world: SessionWorld):
    del world.super_cluster.stores["Widget"]
    assert not world.session.ruled.is_served("Widget")


def test_copies_go_as_the_caches_of_the_super_cluster_say():
    state = RuledKindState((), stores={}, super_stores={}, deletes_copies="Old".__eq__)
    assert [state.is_removed(kind) for kind in ("Old", "New")] == [True, False]
