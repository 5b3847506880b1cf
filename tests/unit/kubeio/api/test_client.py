"""Faults of the wire: what is repeated, what is not, and when it ends."""

from __future__ import annotations

import asyncio
import time

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from tenancy.resources import NODES, PODS
from tests.support.faults import misbehaving
from tests.support.processes import free_port

pytestmark = pytest.mark.usefixtures("wire_in_use")
GOOD = {"kind": "Pod", "metadata": {"name": "a"}}


def _after(faults, *, then=GOOD):
    """Misbehave by each fault once, then answer."""
    left = list(faults)

    async def handler(request, answer):
        if left:
            await left.pop(0)(answer)
        else:
            await answer.json(then)

    return handler


async def _cut(answer):
    answer.cut()


async def _told_to_wait(answer):
    await answer.status(429, "TooManyRequests", Retry_After="0")


async def _told_unavailable(answer):
    await answer.status(503, "ServiceUnavailable", Retry_After="0")


async def _refused_by_rule(answer):
    await answer.status(429, "TooManyRequests", "disruption budget")


async def _internal(answer):
    await answer.status(500, "InternalError")


async def _get(client):
    return await client.get(PODS, "a", namespace="n")


async def _post(client):
    return await client.create(PODS, {"metadata": {"name": "a", "namespace": "n"}})


async def _put(client):
    return await client.replace(PODS, {"metadata": {"name": "a", "namespace": "n"}})


async def _merge(client):
    return await client.patch(PODS, "a", {}, namespace="n")


async def _json(client):
    return await client.patch(PODS, "a", [], kind="json", namespace="n")


async def _apply(client):
    return await client.apply(PODS, {"metadata": {"name": "a"}}, field_manager="m")


async def _delete(client):
    return await client.delete(PODS, "a", namespace="n")


@pytest.mark.parametrize("verb", [_get, _put, _merge, _apply, _delete])
@pytest.mark.parametrize("fault", [_cut, _told_to_wait, _told_unavailable])
async def test_what_may_be_repeated_is(verb, fault):
    """REL-34."""
    async with misbehaving(_after([fault, fault])) as server, Client(server.endpoint) as client:
        assert await verb(client) == GOOD


@pytest.mark.parametrize("verb", [_post, _json])
@pytest.mark.parametrize(
    ("fault", "problem"), [(_cut, errors.Unavailable), (_told_unavailable, errors.ServerError)]
)
async def test_what_may_have_happened_is_not_repeated(verb, fault, problem):
    """REL-34."""
    async with misbehaving(_after([fault])) as server, Client(server.endpoint) as client:
        with pytest.raises(problem):
            await verb(client)
        assert len(server.requests) == 1


@pytest.mark.parametrize("verb", [_post, _json])
async def test_what_was_turned_away_at_the_door_is_repeated_even_so(verb):
    async with misbehaving(_after([_told_to_wait])) as server, Client(server.endpoint) as client:
        assert await verb(client) == GOOD


@pytest.mark.parametrize(
    ("fault", "problem"),
    [(_refused_by_rule, errors.TooManyRequests), (_internal, errors.ServerError)],
)
async def test_what_time_does_not_heal_is_not_repeated(fault, problem):
    async with misbehaving(_after([fault])) as server, Client(server.endpoint) as client:
        with pytest.raises(problem):
            await _get(client)
        assert len(server.requests) == 1


async def test_a_delay_longer_than_the_deadline_is_for_the_caller():
    async def handler(request, answer):
        await answer.status(429, "TooManyRequests", Retry_After="30")

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.get(PODS, "a", namespace="n", deadline=5.0)
        assert caught.value.retry_after == 30.0
        assert len(server.requests) == 1


async def test_repetitions_end():
    async def handler(request, answer):
        answer.cut()

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        with pytest.raises(errors.Unavailable, match="faulty: GET /api/v1/namespaces/n/pods/a"):
            await _get(client)
        assert len(server.requests) >= 4


async def test_the_deadline_is_for_all_tries_together():
    async def handler(request, answer):
        await asyncio.sleep(0.15)
        answer.cut()

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        started = time.monotonic()
        with pytest.raises(errors.Unavailable):
            await client.get(PODS, "a", namespace="n", deadline=0.4)
        assert time.monotonic() - started < 2.0


async def test_silence_runs_into_the_deadline_and_is_not_repeated():
    async def handler(request, answer):
        await answer.hang()

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        with pytest.raises(errors.Timeout, match=r"no answer within 1 s"):
            # Long enough for the request to have come, and not for a second one.
            await client.get(PODS, "a", namespace="n", deadline=1.0)
        assert len(server.requests) == 1


async def test_no_one_there_is_tried_again_even_for_a_create():
    endpoint = Endpoint(server="http://127.0.0.1:1", name="nobody")
    async with Client(endpoint) as client:
        with pytest.raises(errors.NotSent, match=r"cannot connect to 127\.0\.0\.1:1"):
            await client.create(PODS, {"metadata": {"name": "a"}}, deadline=3.0)


async def test_a_create_that_met_a_closed_door_is_tried_again():
    port = free_port()

    async def handler(request, answer):
        await answer.json(GOOD)

    async def open_late():
        await asyncio.sleep(0.02)
        async with misbehaving(handler, port):
            await created.wait()

    created = asyncio.Event()
    async with (
        asyncio.TaskGroup() as group,
        Client(Endpoint(server=f"http://127.0.0.1:{port}")) as client,
    ):
        group.create_task(open_late())
        assert await _post(client) == GOOD
        created.set()


@pytest.mark.parametrize("name", ["..", "."])
async def test_a_name_cannot_leave_its_place_in_the_path(name):
    async with Client(Endpoint(server="http://127.0.0.1:1")) as client:
        with pytest.raises(ValueError, match="is not a name"):
            await client.get(PODS, name, namespace="n")
        with pytest.raises(ValueError, match="is not a name"):
            await client.get(PODS, "a", namespace=name)


async def test_odd_names_stay_one_segment():
    async def handler(request, answer):
        await answer.json(GOOD)

    async with misbehaving(handler) as server, Client(server.endpoint) as client:
        await client.get(NODES, "a/../b?x=1#y")
        await client.get(NODES, "system:node")
        await client.list(PODS, namespace="n", label_selector="a=b,c!=d&e")
    assert server.requests[0].path == "/api/v1/nodes/a%2F..%2Fb%3Fx%3D1%23y"
    assert server.requests[1].path == "/api/v1/nodes/system:node"
    assert server.requests[2].query == {"labelSelector": "a=b,c!=d&e"}


async def test_an_empty_name_never_means_all_of_them():
    async with Client(Endpoint(server="http://127.0.0.1:1")) as client:
        for call in (client.get, client.delete):
            with pytest.raises(ValueError, match="no name"):
                await call(PODS, "", namespace="n")
        with pytest.raises(ValueError, match="no name"):
            await client.replace(PODS, {"metadata": {}})


async def test_what_is_sent():
    async def handler(request, answer):
        await answer.json(GOOD)

    async with misbehaving(handler) as server:
        endpoint = Endpoint(server=server.endpoint.server + "/base/", token="tok")
        async with Client(endpoint, ClientOptions(user_agent="vc-test")) as client:
            await client.apply(
                PODS, {"metadata": {"name": "a", "namespace": "n"}}, field_manager="m"
            )
            await client.delete(
                PODS, "a", namespace="n", uid="u", grace_seconds=0, propagation="Background"
            )
    apply, delete = server.requests
    assert apply.method == "PATCH"
    assert apply.path == "/base/api/v1/namespaces/n/pods/a"
    assert apply.query == {"fieldManager": "m", "force": "true"}
    assert apply.headers["content-type"] == "application/apply-patch+yaml"
    assert apply.headers["user-agent"] == "vc-test"
    assert apply.headers["authorization"] == "Bearer tok"
    assert "accept-encoding" not in apply.headers
    assert delete.body == (
        b'{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},'
        b'"gracePeriodSeconds":0,"propagationPolicy":"Background"}'
    )
