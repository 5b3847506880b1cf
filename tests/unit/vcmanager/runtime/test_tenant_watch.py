"""A tenant that sends without end costs the manager little, and is watched again later."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from tenancy.resources import CLUSTER_ROLES
from tests.support.eventually import eventually
from tests.support.faults import misbehaving
from vcmanager.runtime import context, tenant_watch
from vcmanager.runtime.tenant_watch import TenantWatch


def item(number: int, size: int = 2000) -> dict[str, object]:
    metadata = {"name": f"r{number}", "uid": f"u{number}", "resourceVersion": str(10 + number)}
    return {"metadata": metadata | {"annotations": {"x": "y" * size}}}


async def test_a_watch_without_an_end_is_cut_off_and_opened_again_after_a_pause(monkeypatch):
    monkeypatch.setattr(tenant_watch, "PAUSE_SECONDS", 0.05)
    opened, changes = [], []

    async def serve(request, answer):
        if "as=PartialObjectMetadata" not in request.headers.get("accept", ""):
            await answer.status(400, "BadRequest")
            return
        opened.append(request.query.get("sendInitialEvents"))
        await answer.begin()
        for number in itertools.count() if len(opened) == 1 else ():
            await answer.event("ADDED", item(number))
        await answer.hang()

    async with misbehaving(serve) as found, Client(found.endpoint) as client:
        watch = TenantWatch(client, [CLUSTER_ROLES], lambda: changes.append(1))
        try:
            await eventually(lambda: len(opened) == 2)
            assert changes == [1], "changes during the pause were not seen"
        finally:
            await watch.close()


async def test_an_answer_of_a_tenant_without_an_end_is_given_up():
    async def serve(_, answer):
        await answer.json({"kind": "Status", "message": "y" * (2 * 1024 * 1024)})

    options = ClientOptions(max_response_bytes=context._MAX_TENANT_RESPONSE_BYTES)
    async with misbehaving(serve) as found, Client(found.endpoint, options) as client:
        with pytest.raises(errors.ResponseTooLarge, match="more than 1048576 bytes"):
            await asyncio.wait_for(client.version(), 10)


async def test_a_caller_that_is_cancelled_while_it_closes_a_watch_ends():
    async with Client(Endpoint(server="http://127.0.0.1:1")) as client:
        watch = TenantWatch(client, [CLUSTER_ROLES], lambda: None)
        held, ended = asyncio.Event(), []

        async def run() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await held.wait()  # a connection that closes slowly

        watch._running.cancel()
        watch._running = asyncio.ensure_future(run())
        await asyncio.sleep(0)

        async def close() -> None:
            await watch.close()
            ended.append(1)

        closing = asyncio.ensure_future(close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0)
        held.set()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert ended == []
