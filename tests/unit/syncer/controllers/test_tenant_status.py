"""Reactions to a tenant's etcd that may be a different one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.reflector import Reflector
from syncer.controllers import tenant_status
from syncer.safety.store_guard import StoreProblem, StoreRecord
from tenancy import wellknown
from tests.support.syncer.sessions import STORE_UID, SessionWorld


def doubted(uid: str) -> SessionWorld:
    """Return a world whose session is to look at a store."""
    world = SessionWorld()
    world.declared()
    world.above.has("Namespace", "kube-system", {"metadata": {"uid": uid}})
    world.session.store_guard._record = StoreRecord(uid=STORE_UID, revision=1)
    world.link.request_store_check()
    return world


def said(world: SessionWorld, kind: str) -> dict[str, Any]:
    """Return the last condition of a type that was written."""
    body = world.below.bodies[-1]
    found = next(c for c in body["status"]["conditions"] if c["type"] == kind)
    return {key: found[key] for key in ("status", "reason")}


async def test_a_store_that_is_another_one_ends_the_session():
    world = doubted("another-uid")
    await tenant_status.reconcile_tenant_status(world.key("Store", "", ""), world.session)
    assert world.link._must_restart.is_set()
    assert said(world, wellknown.DELETES_HELD)["status"] == "True"


async def test_a_store_that_is_the_same_does_not():
    world = doubted(STORE_UID)
    await tenant_status.reconcile_tenant_status(world.key("Store", "", ""), world.session)
    assert not world.link._must_restart.is_set()
    assert not world.link.must_check_store
    assert said(world, wellknown.SYNCED)["status"] == "True"


async def test_a_store_that_has_come_back_ends_the_session_as_well():
    """The caches may have been filled from the store that was there between."""
    world = doubted(STORE_UID)
    world.session.store_guard.problem = StoreProblem(
        "its revision is lower than 7000, which was seen before, so it is an older copy"
    )
    await tenant_status.reconcile_tenant_status(world.key("Store", "", ""), world.session)
    assert not world.link.holds_deletes
    assert world.link._must_restart.is_set()
    assert said(world, wellknown.DELETES_HELD)["status"] == "False"


async def test_what_is_cached_of_a_store_that_went_back_is_listed_again():
    """Creates and changes go on while deletes are held, and not from the caches of another store.

    A revision that was raised on the way back is beyond where the watches stand.
    """
    world = doubted(STORE_UID)
    world.session.store_guard._record = StoreRecord(uid=STORE_UID, revision=7000)
    await tenant_status.reconcile_tenant_status(world.key("Store", "", ""), world.session)
    assert world.link.holds_deletes
    assert not world.link._must_restart.is_set()
    assert all(is_stale(reflector) for reflector in world.link._reflectors)


def is_stale(reflector: Reflector | CrdReflector) -> bool:
    """Return whether a reflector will list its collection again."""
    inner = reflector._definition if isinstance(reflector, CrdReflector) else reflector
    return inner._must_relist


async def test_how_things_are_is_reported_whatever_the_tenants_api_refuses():
    world = doubted(STORE_UID)
    world.above.refusals["list"] = errors.Forbidden("no")
    with pytest.raises(errors.Forbidden):
        await tenant_status.reconcile_tenant_status(world.key("Store", "", ""), world.session)
    assert said(world, wellknown.SYNCED)["reason"] == "Engaged"
    assert world.link.must_check_store  # it was not looked at


async def test_nothing_is_reported_where_the_look_at_a_store_is_cancelled():
    """A syncer that loses the Lease ends. A write would be one more error instead."""
    world = doubted(STORE_UID)
    world.above.refusals["list"] = asyncio.CancelledError()  # type: ignore[assignment]
    with pytest.raises(asyncio.CancelledError):
        await tenant_status.reconcile_tenant_status(world.key("Store", "", ""), world.session)
    assert not world.below.writes()
