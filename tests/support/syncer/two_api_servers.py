"""Store guard and proven deletes between two API servers in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from kubeio.http.transport_protocol import HttpRequest
from syncer.safety import store_guard
from syncer.safety.store_guard import StoreGuard
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES, Resource
from tests.support.directed import directed
from tests.support.memapi import clusters, verbs
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.direct import DirectTransport, RequestFate, WatchTap
from tests.support.memapi.refusals import StatusError

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")


FULL = StatusError(403, "Forbidden", "not now")


@dataclass
class RecordedWire:
    """Requests over one wire. Writes can be refused."""

    asked: list[HttpRequest] = field(default_factory=list)
    refuses: bool = False

    def fate(self, request: HttpRequest) -> RequestFate:
        """Note a request, and let it go."""
        self.asked.append(request)
        return RequestFate(refusal=FULL if self.refuses and request.method != "GET" else None)

    def opened(self, tap: WatchTap) -> None:
        """There are no watches here."""


@dataclass
class Pair:
    """A tenant's API server and the super cluster's, with a client of each."""

    above: MemoryCluster
    below: MemoryCluster
    tenant_client: Client
    super_client: Client
    wired: dict[str, RecordedWire]

    def store_guard(self) -> StoreGuard:
        """Return the store guard of a syncer that has just started."""
        return StoreGuard(
            tenant=TENANT,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            revision=lambda: 0,
            on_judged=lambda: None,
        )

    def make(self, cluster: MemoryCluster, resource: Resource, space: str, body: Any) -> Any:
        """Make an object as an admin would."""
        copied = orjson.loads(orjson.dumps(body))
        return verbs.create(cluster, cluster.of(resource), space, copied, "admin").decode()

    def mark(self) -> dict[str, Any] | None:
        """Return the ConfigMap in the tenant, if it is there."""
        stored = self.above.of(CONFIG_MAPS).get("kube-system", store_guard.CONFIG_MAP)
        return None if stored is None else stored.decode()

    def remembered(self) -> dict[str, str]:
        """Return what the root namespace remembers."""
        stored = self.below.of(NAMESPACES).get("", TENANT.root)
        assert stored is not None
        return dict(stored.decode()["metadata"].get("annotations") or {})

    def system(self) -> str:
        """Return the UID of the tenant's kube-system."""
        stored = self.above.of(NAMESPACES).get("", "kube-system")
        assert stored is not None
        return str(stored.decode()["metadata"]["uid"])

    def replace(self) -> None:
        """Put a fresh store behind the tenant's address, further on than the old one."""
        fresh = clusters.fresh("other", "10.96.4.0/22", accounts=False)
        self.above.restore(fresh.save(), bump=100_000)

    def writes(self, side: str) -> list[str]:
        """Return the writes that went to a side."""
        asked = self.wired[side].asked
        return [f"{each.method} {each.target}" for each in asked if each.method != "GET"]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    above = clusters.fresh("above", "10.96.4.0/22", accounts=False)
    below = clusters.fresh("below", "10.96.0.0/12", accounts=False)
    wired = {"above": RecordedWire(), "below": RecordedWire()}
    served = {"1": ("above", MemoryApi(above)), "2": ("below", MemoryApi(below))}

    def wire(endpoint: Endpoint, fence: Any) -> DirectTransport:
        side, api = served[endpoint.server[-1]]
        return DirectTransport(api, wired[side], fence)

    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(directed(wire))
        clients = [
            await stack.enter_async_context(Client(Endpoint(server=f"http://127.0.0.1:{number}")))
            for number in (1, 2)
        ]
        made = Pair(above, below, *clients, wired)
        made.make(below, NAMESPACES, "", {"metadata": {"name": TENANT.root}})
        yield made
