"""A server that sends more than its budget is cut off, in a list and in a watch."""

from __future__ import annotations

import asyncio
import itertools

import orjson
import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.cache_budget import (
    BudgetExceededError,
    CacheBudget,
    CacheLimit,
    CacheLimits,
    CacheOverflow,
    ListedObjects,
)
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Store, measure_entry, parse_entry
from kubeio.http.rest import ClientOptions
from tenancy.resources import CONFIG_MAPS, SECRETS, VOLUME_SNAPSHOT_CLASSES
from tests.support.eventually import eventually
from tests.support.faults import misbehaving

LIMITS = CacheLimits(
    total=CacheLimit(max_bytes=200_000, max_objects=100),
    each_kind=CacheLimit(max_bytes=100_000, max_objects=60),
    max_object_bytes=50_000,
)


def item(name: str, size: int = 0, version: int = 5, namespace: str = "n", **more: object):
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata | more, "data": {"x": "y" * size}}


def entry(name: str, size: int = 0, **more: object):
    return parse_entry(orjson.dumps(item(name, size, **more)))


class Server:
    """Refuses to stream lists unless `streams`. Its pages and events come from two iterators."""

    def __init__(self, pages=(), events=(), *, streams: bool = False):
        self.pages, self.events, self.streams = iter(pages), iter(events), streams
        self.sent = 0

    async def __call__(self, request, answer):
        if "watch" in request.query:
            if "sendInitialEvents" in request.query and not self.streams:
                await answer.status(422, "Invalid")
                return
            await answer.begin()
            for found in self.events:
                self.sent += 1
                await answer.event(*found)
            await answer.hang()
        items, token = next(self.pages)
        self.sent += 1
        metadata = {"resourceVersion": "9"} | ({"continue": token} if token else {})
        await answer.json({"kind": "ConfigMapList", "metadata": metadata, "items": items})


async def run(server: Server, options: ClientOptions | None = None):
    """Follow ConfigMaps until the budget ends it. Returns budget, store and the error."""
    budget, store = CacheBudget(LIMITS), Store()
    async with (
        misbehaving(server) as found,
        Client(found.endpoint, options or ClientOptions()) as client,
    ):
        account = budget.open_account("ConfigMap", store)
        reflector = Reflector(
            client,
            CONFIG_MAPS,
            store,
            ReflectorOptions(account=account),
            backoff=Backoff(base=0.001, ceiling=0.01),
        )
        with pytest.raises(BudgetExceededError) as raised:
            await asyncio.wait_for(reflector.run(), 20)
    return budget, store, raised.value


async def test_pages_without_an_end_are_cut_off_at_the_budget():
    """REL-77."""
    pages = (([item(f"c{number}", 5_000, namespace="big")], "more") for number in itertools.count())
    server = Server(pages)
    budget, store, _ = await run(server)
    assert server.sent <= 20
    assert budget.overflow is not None
    assert (budget.overflow.kind, budget.overflow.namespace) == ("ConfigMap", "big")
    assert 100_000 < budget.overflow.size < 120_000
    assert budget.exceeded.is_set()
    assert len(store) == 0


async def test_pages_that_repeat_are_cut_off_by_the_bytes_received():
    """They keep nothing, and reading them costs the loop of all tenants."""
    pages = (([item("same", 20_000)], "more") for _ in itertools.count())
    server = Server(pages)
    budget, _, _ = await run(server)
    assert server.sent <= 12
    assert budget.overflow is not None
    assert "a list has more than 200000 bytes" in budget.overflow.reason


async def test_a_streamed_list_without_an_end_is_cut_off():
    events = (("ADDED", item(f"c{number}", 5_000)) for number in itertools.count())
    server = Server(events=events, streams=True)
    budget, _, _ = await run(server)
    assert budget.overflow is not None


async def test_growth_by_watch_events_alone_is_cut_off():
    """REL-77."""
    events = (("ADDED", item(f"c{number}", 1_000, 10 + number)) for number in itertools.count())
    server = Server([([item("first")], "")], events)
    budget, store, _ = await run(server)
    assert budget.overflow is not None
    assert len(store) <= LIMITS.each_kind.max_objects + 1
    assert budget.size > 0
    budget.release()
    assert (budget.size, budget.objects, len(store), store.size) == (0, 0, 0, 0)


async def test_objects_count_as_well_as_bytes():
    events = (("ADDED", item(f"c{number}", 0, 10 + number)) for number in itertools.count())
    budget, store, _ = await run(Server([([], "")], events))
    assert budget.overflow is not None
    assert len(store) == LIMITS.each_kind.max_objects + 1


async def test_one_object_over_its_limit_is_cut_off_and_named():
    budget, store, problem = await run(Server([([item("huge", 60_000)], "")]))
    assert "the object huge has" in str(problem)
    assert budget.overflow is not None
    assert budget.overflow.namespace == "n"
    assert len(store) == 0


@pytest.mark.parametrize("streams", [True, False])
async def test_a_line_that_is_too_long_is_an_overflow_and_not_a_broken_watch(streams):
    events = [("ADDED", item("long", 30_000, 11))]
    server = Server([([], "")], events, streams=streams)
    budget, _, _ = await run(server, ClientOptions(max_line_bytes=20_000))
    assert budget.overflow is not None
    assert "a line of more than 20000 bytes" in budget.overflow.reason


async def test_unfinished_events_of_all_watches_are_charged_and_cut_off_together():
    """REL-77: each is below the limit of a line, and no cache has an object."""
    resources = (CONFIG_MAPS, SECRETS, VOLUME_SNAPSHOT_CLASSES)

    async def serve(request, answer):
        await answer.begin()
        for _ in range(18):
            await answer.chunk(b"x" * 5_000)
        await answer.hang()

    budget = CacheBudget(LIMITS)
    async with misbehaving(serve) as found, Client(found.endpoint) as client:
        reflectors = [
            Reflector(
                client,
                resource,
                Store(),
                ReflectorOptions(account=budget.open_account(resource.kind, Store())),
            )
            for resource in resources
        ]
        running = [asyncio.ensure_future(each.run()) for each in reflectors]
        try:
            await asyncio.wait_for(budget.exceeded.wait(), 10)
        finally:
            for each in running:
                each.cancel()
            await asyncio.wait(running)
    assert budget.overflow is not None
    assert "more than 200000 bytes of objects and unfinished events" in budget.overflow.reason
    assert 66_000 < budget.overflow.size <= 90_000
    assert budget.size == 0, "nothing is charged once the watches have ended"


async def test_an_event_that_is_complete_is_charged_as_an_object_only():
    async def serve(request, answer):
        encoded = orjson.dumps({"type": "ADDED", "object": item("late", 5_000, 11)}) + b"\n"
        if "watch" not in request.query:
            await answer.json({"metadata": {"resourceVersion": "9"}, "items": []})
        elif "sendInitialEvents" in request.query:
            await answer.status(422, "Invalid")
        else:
            await answer.begin()
            for at in range(0, len(encoded), 100):
                await answer.chunk(encoded[at : at + 100])
            await answer.hang()

    budget, store = CacheBudget(LIMITS), Store()
    account, stored = budget.open_account("ConfigMap", store), asyncio.Event()
    store.subscribe(lambda *_: stored.set())
    async with misbehaving(serve) as found, Client(found.endpoint) as client:
        reflector = Reflector(client, CONFIG_MAPS, store, ReflectorOptions(account=account))
        running = asyncio.ensure_future(reflector.run())
        try:
            await asyncio.wait_for(stored.wait(), 10)
            await eventually(lambda: budget.size == store.size)
        finally:
            running.cancel()
            await asyncio.wait((running,))
    assert store.size > 5_000


async def test_a_page_that_is_too_large_is_read_in_smaller_pages():
    asked: list[int] = []

    async def serve(request, answer):
        if "watch" in request.query:
            if "sendInitialEvents" in request.query:
                await answer.status(422, "Invalid")
                return
            await answer.begin()
            await answer.hang()
        limit, first = int(request.query["limit"]), int(request.query.get("continue") or 0)
        asked.append(limit)
        items = [item(f"c{each}", 1_000) for each in range(first, min(first + limit, 40))]
        token = str(first + limit) if first + limit < 40 else ""
        metadata = {"resourceVersion": "9"} | ({"continue": token} if token else {})
        await answer.json({"kind": "ConfigMapList", "metadata": metadata, "items": items})

    budget, store = CacheBudget(LIMITS), Store()
    options = ClientOptions(max_response_bytes=10_000)
    async with misbehaving(serve) as found, Client(found.endpoint, options) as client:
        reflector = Reflector(
            client,
            CONFIG_MAPS,
            store,
            ReflectorOptions(account=budget.open_account("ConfigMap", store)),
        )
        running = asyncio.ensure_future(reflector.run())
        await asyncio.wait_for(reflector.wait_synced(), 10)
        running.cancel()
        await asyncio.wait((running,))
    assert asked[:4] == [500, 100, 20, 4]
    assert len(store) == 40


async def test_a_kind_that_comes_with_a_crd_is_charged_too():
    async def serve(request, answer):
        await answer.begin()
        for number in itertools.count():
            await answer.event("ADDED", item(f"c{number}", 5_000))

    budget = CacheBudget(LIMITS)
    async with misbehaving(serve) as found, Client(found.endpoint) as client:
        reflector = CrdReflector(client, VOLUME_SNAPSHOT_CLASSES, Store(), cache_budget=budget)
        with pytest.raises(ExceptionGroup) as raised:
            await asyncio.wait_for(reflector.run(), 20)
    assert raised.group_contains(BudgetExceededError)
    assert budget.overflow is not None


def test_a_message_has_no_control_characters_of_a_hostile_server():
    overflow = CacheOverflow(kind="Pod", namespace="a\x1b[2J" + "b" * 999, size=1, reason="r")
    assert overflow.describe().startswith("Pod in namespace a?[2Jbbb")
    assert len(overflow.describe()) < 300


# Accounts.


def put(store: Store, *entries) -> None:
    for each in entries:
        store.put(each, live=True)


def test_a_store_measures_its_entries_through_every_change():
    store = Store()
    small, large = entry("a", 10), entry("a", 900, version=6)
    put(store, small, entry("b", 10))
    put(store, large)
    assert store.size == measure_entry(large) + measure_entry(entry("b", 10))
    store.discard(large, live=True)
    store.retain(())
    assert (store.size, len(store)) == (0, 0)


def test_short_annotations_count_for_the_memory_that_they_use():
    many = entry("a", annotations={f"k{number}": "" for number in range(1000)})
    assert measure_entry(many) > len(many.body) + 100_000


async def test_the_sum_over_kinds_names_the_largest_kind():
    budget = CacheBudget(LIMITS)
    first, second, third = Store(), Store(), Store()
    accounts = [
        budget.open_account(kind, store)
        for kind, store in (("ConfigMap", first), ("Secret", second), ("Pod", third))
    ]
    for store, account, count in zip((first, second, third), accounts, (2, 3, 2), strict=True):
        for number in range(count):
            put(store, entry(f"e{number}", 27_000, namespace=f"ns-{account.kind}"))
        if account.kind != "Pod":
            account.charge()
    put(third, *(entry(f"e{number}", 12_000) for number in range(2, 4)))
    with pytest.raises(BudgetExceededError, match="all kinds together") as raised:
        accounts[2].charge()
    assert "Secret" in str(raised.value)
    assert budget.overflow is not None
    assert (budget.overflow.kind, budget.overflow.namespace) == ("Secret", "ns-Secret")
    assert "Secret in namespace ns-Secret: more than" in budget.overflow.describe()


async def test_a_list_that_is_read_again_does_not_count_twice():
    budget, store = CacheBudget(LIMITS), Store()
    account = budget.open_account("ConfigMap", store)
    listed = ListedObjects()
    for number in range(3):
        found = entry(f"e{number}", 27_000)
        put(store, found)
        listed.put(found, len(found.body))
        account.charge(listed)
    assert budget.size == store.size == listed.size


async def test_a_limit_from_outside_names_the_largest_kind_and_only_the_first_is_kept():
    budget, store = CacheBudget(LIMITS), Store()
    put(store, entry("a", 100))
    account = budget.open_account(SECRETS.kind, store)
    budget.open_account("Pod", Store())
    account.charge()
    budget.exceed("the process has no memory")
    budget.exceed("another reason")
    assert budget.overflow is not None
    assert budget.overflow.describe() == (
        f"Secret in namespace n: the process has no memory. This kind uses {account.size} bytes"
    )
    assert issubclass(BudgetExceededError, errors.KubeError)
