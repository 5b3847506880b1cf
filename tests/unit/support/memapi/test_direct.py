"""The wire that ends in this process: what becomes of requests, and a store that goes back."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from kubeio import errors
from kubeio.errors import RequestDescription
from kubeio.http.transport_protocol import HttpRequest, HttpResponse
from tenancy.resources import CONFIG_MAPS, NAMESPACES
from tests.support.memapi import patches
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.clusters import fresh
from tests.support.memapi.direct import DirectTransport, RequestFate, WatchTap
from tests.support.memapi.refusals import StatusError

SPACE = "default"


class ScriptedNetwork:
    """Has each request meet the fate that is next."""

    def __init__(self, *fates: RequestFate) -> None:
        self.fates = list(fates)
        self.taps: list[WatchTap] = []

    def fate(self, _: HttpRequest) -> RequestFate:
        return self.fates.pop(0) if self.fates else RequestFate()

    def opened(self, tap: WatchTap) -> None:
        self.taps.append(tap)


@pytest.fixture
def cluster() -> MemoryCluster:
    return fresh("model", "10.96.0.0/16", accounts=False)


def request(method: str, target: str, body: object = None, content: str = "") -> HttpRequest:
    encoded = None if body is None else orjson.dumps(body)
    return HttpRequest(
        method,
        target,
        [("Content-Type", content)],
        encoded,
        RequestDescription("server", method, target),
    )


def config_map(name: str) -> HttpRequest:
    return request("POST", CONFIG_MAPS.build_path(SPACE), {"metadata": {"name": name}})


def has(cluster: MemoryCluster, name: str) -> bool:
    return cluster.of(CONFIG_MAPS).get(SPACE, name) is not None


async def ask(
    cluster: MemoryCluster, asked: HttpRequest, *fates: RequestFate, left: float = 5.0
) -> HttpResponse:
    return await DirectTransport(MemoryApi(cluster), ScriptedNetwork(*fates)).exchange(
        asked, timeout_seconds=left
    )


@pytest.mark.parametrize(
    ("fate", "takes_effect"),
    [(RequestFate(is_lost=True), False), (RequestFate(is_unanswered=True), True)],
)
async def test_a_broken_connection_reports_nothing_of_the_write(cluster, fate, takes_effect):
    with pytest.raises(errors.Unavailable):
        await ask(cluster, config_map("x"), fate)
    assert has(cluster, "x") is takes_effect


async def test_a_write_that_is_held_up_arrives_after_its_client_has_left(cluster):
    with pytest.raises(errors.Timeout):
        await ask(cluster, config_map("x"), RequestFate(before=0.05), left=0.01)
    assert not has(cluster, "x")
    await asyncio.sleep(0.1)
    assert has(cluster, "x")


async def test_nothing_arrives_at_a_server_that_began_again_meanwhile(cluster):
    """A store is restored while its API servers stand still. Connections to them are gone then."""
    wire = DirectTransport(
        MemoryApi(cluster), ScriptedNetwork(RequestFate(before=0.02), RequestFate(before=0.02))
    )
    writing = asyncio.ensure_future(wire.exchange(config_map("x"), timeout_seconds=5.0))
    target = request("GET", f"{CONFIG_MAPS.build_path(SPACE)}?watch=1")
    watching = asyncio.ensure_future(wire.stream(target, connect=1.0, idle_timeout=5.0))
    await asyncio.sleep(0)
    cluster.restore(cluster.save())
    for each in (writing, watching):
        with pytest.raises(errors.Unavailable):
            await each
    assert not has(cluster, "x")


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_504_may_have_worked(cluster, takes_effect):
    refusal = StatusError(504, "Timeout", "too late")
    fate = RequestFate(refusal=refusal, takes_effect=takes_effect)
    assert (await ask(cluster, config_map("x"), fate)).status == 504
    assert has(cluster, "x") is takes_effect


async def watched(cluster: MemoryCluster, network: ScriptedNetwork, query: str = "") -> WatchTap:
    target = f"{CONFIG_MAPS.build_path(SPACE)}?watch=1{query}"
    wire = DirectTransport(MemoryApi(cluster), network)
    tap = await wire.stream(request("GET", target), connect=1.0, idle_timeout=5.0)
    assert isinstance(tap, WatchTap)
    return tap


def told(lines: bytes) -> list[tuple[str, str]]:
    events = [orjson.loads(line) for line in lines.splitlines()]
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in events]


async def test_what_a_watch_is_kept_from_comes_in_whatever_order(cluster):
    network = ScriptedNetwork()
    tap = await watched(cluster, network, f"&resourceVersion={cluster.revision}")
    tap.hold()
    for name in "ab":
        await ask(cluster, config_map(name))
    await asyncio.sleep(0.01)
    tap.release(lambda lines: lines[::-1])
    assert told(await tap.read()) == [("ADDED", "b"), ("ADDED", "a")]
    tap.cut()
    with pytest.raises(errors.Unavailable):
        await tap.read()


async def test_nothing_comes_behind_what_a_cut_has_lost(cluster):
    """A watch that told of a later change and not of an earlier one would hide that for ever."""
    tap = await watched(cluster, ScriptedNetwork(), f"&resourceVersion={cluster.revision}")
    await ask(cluster, config_map("read-by-nobody"))
    await asyncio.sleep(0.01)
    tap.hold()
    await ask(cluster, config_map("kept"))
    await asyncio.sleep(0.01)
    await ask(cluster, config_map("on-its-way"))
    tap.cut()
    tap.release()
    await asyncio.sleep(0.01)
    with pytest.raises(errors.Unavailable):
        await tap.read()


async def test_a_store_that_goes_back_ends_watches_and_is_silent_toward_the_future(cluster):
    before = cluster.save()
    await ask(cluster, config_map("x"))
    seen = cluster.revision
    tap = await watched(cluster, ScriptedNetwork(), f"&resourceVersion={seen}")
    cluster.restore(before)
    assert await tap.read() == b""
    assert not has(cluster, "x")
    later = await watched(cluster, ScriptedNetwork(), f"&resourceVersion={seen + 1}")
    await ask(cluster, config_map("y"))
    await asyncio.sleep(0.01)
    later.end()
    assert await later.read() == b"", "its revisions are not beyond where the watch stands"


async def test_what_was_compacted_away_is_not_reported(cluster):
    begun = cluster.revision
    await ask(cluster, config_map("x"))
    cluster.compact()
    tap = await watched(cluster, ScriptedNetwork(), f"&resourceVersion={begun}")
    error = orjson.loads(await tap.read())
    assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
    asked = request(
        "GET", f"{CONFIG_MAPS.build_path(SPACE)}?resourceVersion={begun}&resourceVersionMatch=Exact"
    )
    assert (await ask(cluster, asked)).status == 410


async def test_an_apply_takes_away_what_it_no_longer_reports(cluster):
    target = f"{CONFIG_MAPS.build_path(SPACE, 'x')}?fieldManager=one&force=true"
    for data in ({"a": "1", "b": "1"}, {"b": "2"}):
        body = {"metadata": {"name": "x"}, "data": data}
        await ask(cluster, request("PATCH", target, body, patches.APPLY))
        if "a" in data:
            other = request(
                "PATCH", CONFIG_MAPS.build_path(SPACE, "x"), {"data": {"c": "3"}}, patches.MERGE
            )
            await ask(cluster, other)
    stored = cluster.of(CONFIG_MAPS).get(SPACE, "x")
    assert stored is not None
    assert stored.decode()["data"] == {"b": "2", "c": "3"}


async def test_a_namespace_on_its_way_out_takes_nothing_new(cluster):
    await ask(cluster, request("POST", NAMESPACES.build_path(), {"metadata": {"name": "web"}}))
    await ask(cluster, request("DELETE", NAMESPACES.build_path("", "web"), {}))
    body = {"metadata": {"name": "x"}}
    answer = await ask(cluster, request("POST", CONFIG_MAPS.build_path("web"), body))
    assert answer.status == 403
    assert b"NamespaceTerminating" in answer.content
    finalized = {"spec": {"finalizers": []}}
    await ask(cluster, request("PUT", NAMESPACES.build_path("", "web", "finalize"), finalized))
    assert cluster.of(NAMESPACES).get("", "web") is None
