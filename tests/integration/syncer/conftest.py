"""A super cluster and tenants for the tests of this folder.

`world` has the content of such a world and its use. `control_planes` has its servers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.http.rest import ClientOptions
from tenancy.ownership import Tenant
from tests.integration.syncer.control_planes import (
    begin_super,
    begin_tenant,
    declare,
    super_plane_of,
    tenant_plane,
)
from tests.integration.syncer.world import LINGER, SyncerWorld, names_of_others
from tests.support.controlplane import LocalControlPlane, serving


@pytest.fixture(autouse=True)
def _short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncer.tenants.memory.grace_timers.GRACE_PERIOD_SECONDS", LINGER)


@pytest.fixture(scope="package")
def super_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A super cluster without nodes."""
    plane = super_plane_of(tmp_path_factory.mktemp("super"))
    with serving(plane, begin=begin_super):
        yield plane


@pytest.fixture(scope="package")
def definitions(super_plane: LocalControlPlane) -> Mapping[str, Any]:
    """The schema that a real API server publishes."""

    async def fetch() -> Mapping[str, Any]:
        async with Client(super_plane.endpoint, ClientOptions(deadline=60)) as client:
            found: Object = json.loads(await client.raw("GET", "/openapi/v2"))
            definitions: Mapping[str, Any] = found["definitions"]
            return definitions

    return asyncio.run(fetch())


@pytest.fixture(scope="package")
def shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """The tenant of all tests that leave its store alone."""
    plane = tenant_plane(tmp_path_factory.mktemp("tenant"), "tenant")
    with serving(plane, begin=begin_tenant):
        yield plane


@pytest.fixture(scope="package")
def shared_tenant(super_plane: LocalControlPlane, shared_plane: LocalControlPlane) -> Tenant:
    """The VirtualCluster of the shared tenant."""

    async def make() -> Tenant:
        async with Client(super_plane.endpoint) as super_client:
            return await declare(super_client, shared_plane)

    return asyncio.run(make())


@pytest.fixture
async def world(
    super_plane: LocalControlPlane, shared_plane: LocalControlPlane, shared_tenant: Tenant
) -> AsyncIterator[SyncerWorld]:
    """The shared super cluster and tenant. No syncer runs yet."""
    async with (
        Client(super_plane.endpoint) as super_client,
        Client(shared_plane.endpoint) as tenant_client,
    ):
        yield SyncerWorld(
            super_plane=super_plane,
            tenant_plane=shared_plane,
            tenant=shared_tenant,
            super_client=super_client,
            tenant_client=tenant_client,
            others=await names_of_others(super_client, tenant_client, shared_tenant),
        )


@pytest.fixture
async def synced(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """The shared world with a syncer that has come to rest."""
    async with world.syncer():
        yield world
