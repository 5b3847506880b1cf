"""Events: the same news is counted, other news is not, and trouble is no tenant's problem."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

import orjson
import pytest

from kubeio.api.client import Client
from kubeio.api.event_recorder import MAX_MESSAGE, EventRecorder
from kubeio.config.endpoint import Endpoint
from tenancy.resources import EVENTS, NAMESPACES
from tests.support.eventually import eventually
from tests.support.memapi import clusters, verbs
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.served import Served

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
    "spec": {},
}


class EventServer(Served):
    """The Events of a cluster."""

    def __init__(self):
        super().__init__(
            clusters.fresh("events", "10.96.0.0/16", accounts=False, keeps_events=True)
        )
        self._events = self.cluster.of(EVENTS)
        verbs.create(
            self.cluster, self.cluster.of(NAMESPACES), "", {"metadata": {"name": "n"}}, "test"
        )

    @property
    def events(self):
        return [stored.decode() for stored in self._events.all()]

    @property
    def counts(self):
        return {event["message"]: event["count"] for event in self.events}

    def forget(self):
        for event in self.events:
            self._events.remove(event)

    def refuse(self, code):
        self.refusal = lambda _: StatusError(code, "No", "No") if code else None


@contextlib.asynccontextmanager
async def _recorder(store):
    async with store.running(), Client(store.endpoint) as client:
        recorder = EventRecorder(
            client,
            component="vc-test",
            instance="pod-1",
            now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        )
        task = asyncio.ensure_future(recorder.run())
        try:
            yield recorder
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_an_event_reports_what_the_api_wants_to_know():
    store = EventServer()
    async with _recorder(store) as recorder:
        recorder.record(POD, "Held", "The annotation x is unknown.", kind="Warning")
        await eventually(lambda: store.events)
    event = orjson.loads(store.requests[0].body)
    name = event["metadata"].pop("name")
    assert name.startswith("a.")
    assert len(name) == 18
    assert store.requests[0].target.partition("?")[0] == "/api/v1/namespaces/n/events"
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
    async with _recorder(store) as recorder:
        recorder.record(POD, "Held", "one")
        await eventually(lambda: store.counts == {"one": 1})
        newer = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "8"}}
        recorder.record(newer, "Held", "one")
        recorder.record(newer, "Held", "one")
        recorder.record(POD, "Held", "two")
        await eventually(lambda: store.counts == {"one": 3, "two": 1})
        assert [request.method for request in store.requests] == ["POST", "PATCH", "POST"]


async def test_a_new_object_of_the_same_name_is_another_object():
    store = EventServer()
    async with _recorder(store) as recorder:
        recorder.record(POD, "Held", "one")
        recorder.record({**POD, "metadata": {**POD["metadata"], "uid": "v"}}, "Held", "one")
        await eventually(lambda: len(store.events) == 2)


async def test_an_event_that_the_server_forgot_is_posted_again():
    store = EventServer()
    async with _recorder(store) as recorder:
        recorder.record(POD, "Held", "one")
        await eventually(lambda: store.events)
        store.forget()
        recorder.record(POD, "Held", "one")
        await eventually(lambda: store.counts == {"one": 1})


@pytest.mark.parametrize("code", [403, 404, 422, 500])
async def test_refusals_stop_nothing(code):
    store = EventServer()
    async with _recorder(store) as recorder:
        store.refuse(code)
        recorder.record(POD, "Held", "lost")
        await eventually(lambda: store.requests)
        await eventually(lambda: not recorder._pending)
        store.refuse(0)
        recorder.record(POD, "Held", "kept")
        await eventually(lambda: store.counts == {"kept": 1})


async def test_cluster_scoped_objects_have_their_events_in_default():
    store = EventServer()
    async with _recorder(store) as recorder:
        recorder.record({"kind": "Node", "metadata": {"name": "x" * 250}}, "R", "m")
        (event,) = await eventually(lambda: store.events)
    assert store.requests[0].target.partition("?")[0] == "/api/v1/namespaces/default/events"
    assert len(event["metadata"]["name"]) <= 253


async def test_long_messages_are_cut_and_floods_are_limited():
    async with Client(Endpoint(server="http://127.0.0.1:1")) as client:
        recorder = EventRecorder(client, component="vc-test")
        for number in range(5000):
            recorder.record(POD, "R", f"{number}" + "x" * 5000)
        assert len(recorder._pending) == 1024
        assert all(len(news.message) == MAX_MESSAGE for news in recorder._pending.values())
