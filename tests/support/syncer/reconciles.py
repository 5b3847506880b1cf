"""Reconcile of one key, and twins that the super cluster's API answers for."""

from __future__ import annotations

from syncer.handlers.dispatcher import Dispatcher
from syncer.model.keys import HOME
from tests.support.syncer.sessions import TENANT, SessionWorld

# --- what a refusal takes away --------------------------------------------------------------------


async def reconcile(world: SessionWorld, kind: str, name: str = "x") -> object:
    """Work on one key as the engine does."""
    engine = Dispatcher({HOME: {TENANT.uid: world.session}})
    return await engine.reconcile(world.key(kind, "web", name))


def live(world: SessionWorld, kind: str) -> None:
    """Have the super cluster answer for the twin `x` as the cache shows it."""
    entry = world.super_cluster.stores[kind].get(world.session.view.get_super_namespace("web"), "x")
    assert entry is not None
    world.below.has(kind, "x", entry.decode())
