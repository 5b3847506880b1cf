"""Events on a real server: accepted, counted, and listed with their object."""

from __future__ import annotations

from kubeio.api.client import Client
from kubeio.api.event_recorder import EventRecorder
from tenancy.resources import CONFIG_MAPS, EVENTS, NODES
from tests.support.eventually import eventually
from tests.support.following import following
from tests.support.names import fresh_name, fresh_namespace


async def test_a_repeated_event_is_one_object_with_a_count(tenant_plane):
    async with Client(tenant_plane.endpoint) as client:
        namespace = await fresh_namespace(client)
        about = await client.create(
            CONFIG_MAPS, {"metadata": {"name": "a", "namespace": namespace}}
        )
        recorder = EventRecorder(client, component="vc-test", instance="pod-1")
        async with following(recorder.run()):
            for _ in range(3):
                recorder.record(about, "Held", "It is held.", kind="Warning")

            async def listed():
                uid = about["metadata"]["uid"]
                found = await client.list(
                    EVENTS, namespace=namespace, field_selector=f"involvedObject.uid={uid}"
                )
                return [(event["reason"], event["count"]) for event in found["items"]]

            await eventually(listed, until=lambda found: found == [("Held", 3)])
            recorder.record(about, "Held", "It is held.", kind="Warning")
            await eventually(listed, until=lambda found: found == [("Held", 4)])


async def test_events_of_cluster_scoped_objects_are_taken(tenant_plane):
    async with Client(tenant_plane.endpoint) as client:
        node = await client.create(NODES, {"metadata": {"name": fresh_name("node")}})
        recorder = EventRecorder(client, component="vc-test")
        async with following(recorder.run()):
            recorder.record(node, "Seen", "It is there.")

            async def listed():
                name = node["metadata"]["name"]
                found = await client.list(
                    EVENTS, namespace="default", field_selector=f"involvedObject.name={name}"
                )
                return found["items"]

            await eventually(listed)
