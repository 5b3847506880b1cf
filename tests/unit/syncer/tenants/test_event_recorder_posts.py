import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import parse_entry
from syncer.tenants.event_recorder import TenantEventRecorder
from tenancy.resources import NODES, PODS

MESSAGE = "Pod web/p: hostNetwork is not allowed"


def entry(name="p", namespace="web", uid="u"):
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    return parse_entry(orjson.dumps({"metadata": metadata}))


class FakeClient:
    """A tenant's client. Its Events are kept by name."""

    def __init__(self, problem=None):
        self.events = {}
        self.reads = 0
        self.problem = problem

    async def get(self, _resource, name, **_):
        self.reads += 1
        if name not in self.events:
            raise errors.NotFound(f"there is no {name}", status=404)
        return self.events[name]

    async def create(self, _resource, body):
        if self.problem is not None:
            raise self.problem
        self.events[body["metadata"]["name"]] = body


async def record(client, recorder=None, resource=PODS, about=None, message=MESSAGE):
    recorder = recorder or TenantEventRecorder(client)
    await recorder.record(resource, about or entry(), reason="Rejected", message=message)
    return recorder


async def test_event_names_the_object():
    client = FakeClient()
    await record(client)
    (event,) = client.events.values()
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "web",
        "name": "p",
        "uid": "u",
    }
    assert (event["reason"], event["message"], event["type"]) == ("Rejected", MESSAGE, "Warning")
    assert event["metadata"]["namespace"] == "web"


async def test_object_without_a_namespace_has_its_event_in_default():
    client = FakeClient()
    await record(client, resource=NODES, about=entry("n", ""))
    (event,) = client.events.values()
    assert event["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 1), ({"message": "another"}, 2), ({"about": entry(uid="new")}, 2)],
    ids=["the same", "a new text", "a new object of the name"],
)
async def test_event_is_posted_once(changes, count):
    client = FakeClient()
    recorder = await record(client)
    await record(client, recorder, **changes)
    assert len(client.events) == count
    assert client.reads == count


async def test_restart_posts_no_event_again():
    client = FakeClient()
    await record(client)
    client.problem = AssertionError("it is there already")
    await record(client)
    assert len(client.events) == 1


async def test_refused_event_is_tried_again_and_stops_nothing():
    client = FakeClient(errors.Forbidden("quota", status=403))
    recorder = await record(client)
    client.problem = None
    await record(client, recorder)
    assert len(client.events) == 1


async def test_event_of_another_replica_counts_as_posted():
    client = FakeClient(errors.AlreadyExists("there", status=409))
    recorder = await record(client)
    await record(client, recorder)
    assert client.reads == 1


async def test_tenant_that_is_away_is_reported():
    with pytest.raises(errors.Unavailable):
        await record(FakeClient(errors.Unavailable("away")))


async def test_name_and_message_have_the_length_that_the_api_takes():
    client = FakeClient()
    await record(client, about=entry("x" * 253), message="m" * 5000)
    (event,) = client.events.values()
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["message"]) == 1024
