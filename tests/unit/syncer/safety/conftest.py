"""API servers of a tenant and of the super cluster, in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy.resources import NAMESPACES
from tests.support.directed import directed
from tests.support.memapi import clusters
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.direct import DirectTransport
from tests.support.syncer.two_api_servers import TENANT, Pair, RecordedWire


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
