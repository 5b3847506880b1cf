"""The man in the middle: without a fault no one sees him, and each fault does what it is called."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.http.rest import ClientOptions
from kubeio.http.watch_decoder import WatchEvent
from tenancy.resources import CONFIG_MAPS
from tests.chaos.faults import ArmedFault
from tests.chaos.processes.faults import FAULTS, FaultScript
from tests.chaos.processes.proxy import FaultProxy
from tests.support.eventually import eventually
from tests.support.faults import FaultyAnswer, FaultyRequest, FaultyServer, misbehaving

SPACE = "n"


def config_map(name: str, version: int) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": SPACE, "resourceVersion": str(version)}}


LIST = {"metadata": {"resourceVersion": "500"}, "items": [config_map("a", 499)]}


async def well(request: FaultyRequest, answer: FaultyAnswer) -> None:
    """An API server that has one ConfigMap, and six events of it for the one that watches."""
    if request.query.get("watch"):
        await answer.begin()
        for number in range(6):
            await answer.event("MODIFIED", config_map("a", 500 + number))
        await answer.end()
    elif request.method == "GET" and request.path.endswith("configmaps"):
        await answer.json(LIST)
    else:
        await answer.json(config_map("a", 499))


class ProxyChain:
    """A client, the proxy and the server behind it."""

    def __init__(self, client: Client, proxy: FaultProxy, server: FaultyServer) -> None:
        self.client, self.proxy, self.server = client, proxy, server

    @property
    def script(self) -> FaultScript:
        return self.proxy.script

    def arm(self, kind: str, *, count: int = 1, seconds: float = 0.01) -> None:
        self.script.armed.append(ArmedFault("super", kind, seconds, 0, count))

    async def get(self) -> object:
        found = await self.client.get(CONFIG_MAPS, "a", namespace=SPACE)
        return found["metadata"]["name"]

    async def create(self) -> object:
        return await self.client.create(CONFIG_MAPS, config_map("a", 1))

    async def watch(self) -> list[WatchEvent]:
        async with self.client.watch(CONFIG_MAPS, idle_timeout=2.0) as events:
            return [event async for event in events]


@pytest.fixture
async def middle() -> AsyncIterator[ProxyChain]:
    script = FaultScript(random.Random(3))  # noqa: S311 - the same each time
    async with (
        misbehaving(well) as server,
        FaultProxy("super", server.endpoint, script) as proxy,
        Client(proxy.endpoint, ClientOptions(deadline=5.0)) as client,
    ):
        yield ProxyChain(client, proxy, server)


async def test_without_a_fault_everything_goes_through(middle):
    assert await middle.get() == "a"
    assert (await middle.create())["metadata"]["name"] == "a"
    assert await middle.client.list(CONFIG_MAPS) == LIST
    assert len(await middle.watch()) == 6
    assert middle.proxy.requests == 4
    assert [request.method for request in middle.server.requests] == ["GET", "POST", "GET", "GET"]
    await eventually(lambda: not middle.proxy.relays)


async def test_what_is_lost_never_arrives(middle):
    middle.arm("lost")
    with pytest.raises(errors.Unavailable):
        await middle.create()
    assert not middle.server.requests


async def test_what_is_unanswered_has_taken_effect(middle):
    middle.arm("unanswered")
    with pytest.raises(errors.Unavailable):
        await middle.create()
    assert [request.method for request in middle.server.requests] == ["POST"]


async def test_what_is_late_arrives_when_no_one_waits(middle):
    middle.arm("late", seconds=0.05)
    with pytest.raises(errors.Unavailable):
        await middle.create()
    await eventually(lambda: not middle.script.under_way)
    assert [request.method for request in middle.server.requests] == ["POST"]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("409", errors.Conflict),
        ("500", errors.ServerError),
        ("504", errors.ServerTimeout),
        ("reset", errors.Unavailable),
    ],
)
async def test_writes_are_refused_or_torn(middle, kind, problem):
    middle.arm(kind)
    with pytest.raises(problem):
        await middle.client.patch(CONFIG_MAPS, "a", [], kind="json", namespace=SPACE)
    assert bool(middle.server.requests) == (kind == "reset")


async def test_a_504_may_be_done_all_the_same(middle):
    middle.arm("504 done")
    with pytest.raises(errors.ServerTimeout):
        await middle.create()
    assert middle.server.requests


@pytest.mark.parametrize("kind", ["delay", "drip", "429", "503"])
async def test_what_only_takes_longer_is_as_it_was(middle, kind):
    middle.arm(kind, seconds=0.05)
    assert await middle.get() == "a"
    assert middle.script.befallen == {kind: 1}


async def test_garbled_answers_are_no_json(middle):
    middle.arm("garbled")
    with pytest.raises(ValueError, match=r"JSON|unexpected|character"):
        await middle.client.list(CONFIG_MAPS)


async def test_no_one_answers_a_stalled_request_until_the_script_ends(middle):
    middle.arm("stall")
    asking = asyncio.create_task(middle.create())
    await eventually(lambda: middle.script.befallen)
    assert not asking.done()
    middle.script.heal()
    with pytest.raises(errors.Unavailable):
        await asking
    assert not middle.server.requests


async def test_pages_have_no_end_and_a_streamed_list_is_refused(middle):
    middle.arm("pages", count=4)
    token = ""
    for number in range(3):
        page = await middle.client.list(CONFIG_MAPS, continue_token=token)
        assert page["metadata"]["continue"] == f"endless-{number + 1}"
        token = page["metadata"]["continue"]
    assert all("continue" not in request.query for request in middle.server.requests)
    with pytest.raises(errors.BadRequest):
        async with middle.client.watch(CONFIG_MAPS, initial_events=True):
            pass
    assert await middle.client.list(CONFIG_MAPS) == LIST


async def test_a_revision_is_rolled_back(middle):
    middle.arm("rollback")
    found = await middle.client.list(CONFIG_MAPS)
    assert 1 <= int(found["metadata"]["resourceVersion"]) < 500
    assert found["items"] == LIST["items"]
    middle.arm("rollback")
    events = await middle.watch()
    marks = [event.decode() for event in events if event.type == "BOOKMARK"]
    assert len(events) == 7
    assert int(marks[0]["metadata"]["resourceVersion"]) < 500


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("reset", errors.Unavailable),
        ("garbled", errors.Unavailable),
        ("stall", errors.Timeout),
        ("410", errors.Gone),
        ("lost", errors.Unavailable),
    ],
)
async def test_watches_break(middle, kind, problem):
    middle.arm(kind)
    with pytest.raises(problem):
        await middle.watch()


async def test_a_watch_drop_by_drop_reports_the_same(middle):
    middle.arm("drip", seconds=0.05)
    assert len(await middle.watch()) == 6


async def test_watches_are_cut_and_held():
    going = asyncio.Event()

    async def endless(request: FaultyRequest, answer: FaultyAnswer) -> None:
        await answer.begin()
        await answer.event("ADDED", config_map("a", 1))
        await going.wait()
        await answer.event("MODIFIED", config_map("a", 2))
        await answer.event("DELETED", config_map("a", 3))
        await answer.hang()

    script = FaultScript(random.Random(3))  # noqa: S311 - the same each time
    async with (
        misbehaving(endless) as server,
        FaultProxy("super", server.endpoint, script) as proxy,
        Client(proxy.endpoint) as client,
        client.watch(CONFIG_MAPS) as events,
    ):
        assert (await anext(events)).type == "ADDED"
        (relay,) = proxy.relays
        relay.hold()
        going.set()
        await eventually(lambda: relay.lines >= 3)
        await relay.release(lambda lines: lines[::-1])
        assert [(await anext(events)).type for _ in range(2)] == ["DELETED", "MODIFIED"]
        relay.cut()
        with pytest.raises(errors.Unavailable):
            await anext(events)


async def test_a_write_that_comes_again_too_early_is_reported(middle):
    middle.arm("429")
    await middle.create()
    assert not middle.script.hasty
    middle.arm("429")
    port = middle.proxy.endpoint.server
    async with Client(middle.proxy.endpoint, ClientOptions(deadline=0.5)) as hurried:
        with contextlib.suppress(errors.KubeError):
            await hurried.create(CONFIG_MAPS, config_map("b", 1))
        with contextlib.suppress(errors.KubeError):
            await hurried.create(CONFIG_MAPS, config_map("b", 1))
    assert len(middle.script.hasty) == 1, port


async def test_each_fault_is_seen_to_have_an_effect(middle):
    """A fault of the table that no request ever meets would prove nothing."""
    for kind in FAULTS:
        middle.arm(kind, seconds=0.01)
        for ask in (
            lambda: middle.client.get(CONFIG_MAPS, "a", namespace=SPACE, deadline=0.3),
            lambda: middle.client.list(CONFIG_MAPS, deadline=0.3),
            lambda: middle.client.create(CONFIG_MAPS, config_map("a", 1), deadline=0.3),
            lambda: middle.client.delete(CONFIG_MAPS, "a", namespace=SPACE, deadline=0.3),
        ):
            with contextlib.suppress(errors.KubeError, ValueError):
                await ask()
    assert set(middle.script.befallen) == set(FAULTS)
