"""The fence of a client: writes that are held back after the end of a Lease."""

from __future__ import annotations

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.http.rest import ClientOptions
from tenancy.resources import CONFIG_MAPS, PODS
from tests.support.faults import misbehaving

pytestmark = pytest.mark.usefixtures("wire_in_use")
GOOD = {"kind": "Pod", "metadata": {"name": "a"}}


async def _told_to_wait(answer):
    await answer.status(429, "TooManyRequests", Retry_After="0")


async def _get(client):
    return await client.get(PODS, "a", namespace="n")


async def _post(client):
    return await client.create(PODS, {"metadata": {"name": "a", "namespace": "n"}})


async def test_a_fence_holds_back_every_write_and_no_read():
    seen = []

    def fence():
        raise errors.Fenced("not ours any more")

    async def handler(request, answer):
        seen.append(request.method)
        await answer.json(GOOD)

    async with (
        misbehaving(handler) as server,
        Client(server.endpoint, ClientOptions(fence=fence)) as client,
    ):
        for write in (
            _post(client),
            client.patch(PODS, "a", {}, namespace="n"),
            client.delete(PODS, "a", namespace="n"),
            client.replace(PODS, {**GOOD}, namespace="n"),
            client.apply(PODS, {**GOOD}, field_manager="m", namespace="n"),
            client.raw("PUT", "/x"),
        ):
            with pytest.raises(errors.Fenced):
                await write
        await _get(client)
    assert seen == ["GET"]


async def test_a_fence_is_asked_again_for_each_try():
    tried = []

    def fence():
        if tried:
            raise errors.Fenced("not ours any more")

    async def handler(request, answer):
        tried.append(request.method)
        await _told_to_wait(answer)

    async with (
        misbehaving(handler) as server,
        Client(server.endpoint, ClientOptions(fence=fence)) as client,
    ):
        with pytest.raises(errors.Fenced):
            await _post(client)
    assert tried == ["POST"]


async def test_a_fence_that_falls_between_head_and_body_sends_no_whole_request():
    """A large body goes out piece by piece, and others have turns in between."""
    asked, seen = [], []
    large = {"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "x" * 2_500_000}}

    def fence():
        asked.append(True)
        if len(asked) == 2:
            raise errors.Fenced("not ours any more")

    async def handler(request, answer):
        seen.append(request.method)
        await answer.json(GOOD)

    async with (
        misbehaving(handler) as server,
        Client(server.endpoint, ClientOptions(fence=fence)) as client,
    ):
        with pytest.raises(errors.Fenced):
            await client.create(CONFIG_MAPS, large)
        await client.create(CONFIG_MAPS, large)
    assert seen == ["POST"]
