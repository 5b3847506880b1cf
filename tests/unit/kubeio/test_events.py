"""Events: the same news is counted, other news is not, and trouble is nobody's problem."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

import orjson
import pytest

from kubeio.api.client import Client
from kubeio.api.event_recorder import MAX_MESSAGE, EventRecorder
from kubeio.config.endpoint import Endpoint
from tests.support.eventually import eventually
from tests.support.faults import misbehaving

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
    "spec": {},
}


class EventServer:
    """Keeps Events by name, unless told to refuse."""

    def __init__(self):
        self.events = {}
        self.refuses = 0

    async def __call__(self, request, answer):
        body = orjson.loads(request.body)
        name = request.path.rpartition("/")[2]
        if self.refuses:
            await answer.status(self.refuses, "No")
        elif request.method == "POST":
            self.events[body["metadata"]["name"]] = body
            await answer.json(body)
        elif name not in self.events:
            await answer.status(404, "NotFound")
        else:
            self.events[name].update(body)
            await answer.json(self.events[name])

    @property
    def counts(self):
        return {event["message"]: event["count"] for event in self.events.values()}


@contextlib.asynccontextmanager
async def _recorder(store):
    async with misbehaving(store) as server, Client(server.endpoint) as client:
        recorder = EventRecorder(
            client,
            component="vc-test",
            instance="pod-1",
            now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        )
        task = asyncio.ensure_future(recorder.run())
        try:
            yield recorder, server
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_an_event_says_what_the_api_wants_to_know():
    store = EventServer()
    async with _recorder(store) as (recorder, server):
        recorder.record(POD, "Held", "The annotation x is unknown.", kind="Warning")
        (event,) = (await eventually(lambda: store.events)).values()
    name = event["metadata"].pop("name")
    assert name.startswith("a.")
    assert len(name) == 18
    assert server.requests[0].path == "/api/v1/namespaces/n/events"
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "n"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "n",
            "name": "a",
            "uid": "u",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "Held",
        "message": "The annotation x is unknown.",
        "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "vc-test"},
        "reportingComponent": "vc-test",
        "reportingInstance": "pod-1",
    }


async def test_the_same_news_is_counted_and_other_news_is_not():
    store = EventServer()
    async with _recorder(store) as (recorder, server):
        recorder.record(POD, "Held", "one")
        await eventually(lambda: store.counts == {"one": 1})
        newer = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "8"}}
        recorder.record(newer, "Held", "one")
        recorder.record(newer, "Held", "one")
        recorder.record(POD, "Held", "two")
        await eventually(lambda: store.counts == {"one": 3, "two": 1})
        assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]


async def test_a_new_object_of_the_same_name_is_another_object():
    store = EventServer()
    async with _recorder(store) as (recorder, _):
        recorder.record(POD, "Held", "one")
        recorder.record({**POD, "metadata": {**POD["metadata"], "uid": "v"}}, "Held", "one")
        await eventually(lambda: len(store.events) == 2)


async def test_an_event_that_the_server_forgot_is_posted_anew():
    store = EventServer()
    async with _recorder(store) as (recorder, _):
        recorder.record(POD, "Held", "one")
        await eventually(lambda: store.events)
        store.events.clear()
        recorder.record(POD, "Held", "one")
        await eventually(lambda: store.counts == {"one": 1})


@pytest.mark.parametrize("code", [403, 404, 422, 500])
async def test_refusals_stop_nothing(code):
    store = EventServer()
    async with _recorder(store) as (recorder, server):
        store.refuses = code
        recorder.record(POD, "Held", "lost")
        await eventually(lambda: server.requests)
        await eventually(lambda: not recorder._pending)
        store.refuses = 0
        recorder.record(POD, "Held", "kept")
        await eventually(lambda: store.counts == {"kept": 1})


async def test_cluster_scoped_objects_have_their_events_in_default():
    store = EventServer()
    async with _recorder(store) as (recorder, server):
        recorder.record({"kind": "Node", "metadata": {"name": "x" * 250}}, "R", "m")
        (event,) = (await eventually(lambda: store.events)).values()
    assert server.requests[0].path == "/api/v1/namespaces/default/events"
    assert len(event["metadata"]["name"]) <= 253


async def test_long_messages_are_cut_and_floods_are_limited():
    async with Client(Endpoint(server="http://127.0.0.1:1")) as client:
        recorder = EventRecorder(client, component="vc-test")
        for number in range(5000):
            recorder.record(POD, "R", f"{number}" + "x" * 5000)
        assert len(recorder._pending) == 1024
        assert all(len(news.message) == MAX_MESSAGE for news in recorder._pending.values())
