"""The reflector against real servers that stop, are killed, and come back with another store."""

from __future__ import annotations

import asyncio

import pytest

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Store
from tenancy.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from tests.support.controlplane import LocalControlPlane, running
from tests.support.eventually import eventually
from tests.support.following import following
from tests.support.names import fresh_namespace


def _config_map(namespace, name, labels=None, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "data": data,
    }


def _quick():
    return Backoff(base=0.05, ceiling=0.2)


def _names(store):
    return sorted(entry.name for entry in store.list() if entry.name != "kube-root-ca.crt")


@pytest.fixture
async def client(tenant_plane):
    async with Client(tenant_plane.endpoint) as client:
        yield client


async def test_the_store_follows_the_collection(client):
    namespace = await fresh_namespace(client)
    await client.create(CONFIG_MAPS, _config_map(namespace, "before"))
    store, told = Store(), []
    store.subscribe(lambda old, new, live: told.append(((new or old).name, new is None, live)))
    reflector = Reflector(client, CONFIG_MAPS, store, ReflectorOptions(namespace=namespace))
    async with following(reflector.run()):
        await reflector.wait_synced()
        assert client.supports_streamed_lists
        assert _names(store) == ["before"]
        made = await client.create(CONFIG_MAPS, _config_map(namespace, "after", x="1"))
        entry = await eventually(lambda: store.get(namespace, "after"))
        assert entry.decode()["data"] == {"x": "1"}
        assert entry.decode()["kind"] == "ConfigMap"
        assert "managedFields" not in entry.decode()["metadata"]
        assert entry.uid == made["metadata"]["uid"]
        assert reflector.revision >= int(made["metadata"]["resourceVersion"])
        await client.delete(CONFIG_MAPS, "after", namespace=namespace)
        await eventually(lambda: store.get(namespace, "after") is None)
    assert told == [("before", False, False), ("after", False, True), ("after", True, True)]


async def test_a_selected_watch_sees_objects_come_and_go_by_their_labels(client):
    namespace = await fresh_namespace(client)
    store = Store()
    reflector = Reflector(
        client,
        CONFIG_MAPS,
        store,
        ReflectorOptions(namespace=namespace, label_selector="mine=true"),
    )
    async with following(reflector.run()):
        await reflector.wait_synced()
        await client.create(CONFIG_MAPS, _config_map(namespace, "a", {"mine": "true"}))
        await client.create(CONFIG_MAPS, _config_map(namespace, "b"))
        await eventually(lambda: _names(store) == ["a"])
        unlabel = {"metadata": {"labels": {"mine": None}}}
        await client.patch(CONFIG_MAPS, "a", unlabel, namespace=namespace)
        await eventually(lambda: _names(store) == [])


async def test_metadata_alone_can_be_followed(client):
    namespace = await fresh_namespace(client)
    store = Store()
    reflector = Reflector(
        client, SECRETS, store, ReflectorOptions(namespace=namespace, metadata_only=True)
    )
    async with following(reflector.run()):
        await reflector.wait_synced()
        secret = {"metadata": {"name": "s", "namespace": namespace}, "stringData": {"x": "s3cret"}}
        await client.create(SECRETS, secret)
        entry = await eventually(lambda: store.get(namespace, "s"))
        assert "data" not in entry.decode()


async def test_objects_larger_than_any_buffer_come_through(client):
    namespace = await fresh_namespace(client)
    store = Store()
    reflector = Reflector(client, CONFIG_MAPS, store, ReflectorOptions(namespace=namespace))
    async with following(reflector.run()):
        await reflector.wait_synced()
        await client.create(CONFIG_MAPS, _config_map(namespace, "big", x="y" * 900_000))
        entry = await eventually(lambda: store.get(namespace, "big"))
        assert len(entry.body) > 900_000


async def test_without_streamed_lists_pages_do_the_same(client):
    namespace = await fresh_namespace(client)
    client.disable_streamed_lists()
    creates = (
        client.create(CONFIG_MAPS, _config_map(namespace, f"a{number}")) for number in range(600)
    )
    await asyncio.gather(*creates)
    store = Store()
    reflector = Reflector(client, CONFIG_MAPS, store, ReflectorOptions(namespace=namespace))
    async with following(reflector.run()):
        await reflector.wait_synced()
        assert len(_names(store)) == 600
        assert store.get(namespace, "a1").decode()["apiVersion"] == "v1"
        await client.delete(CONFIG_MAPS, "a1", namespace=namespace)
        await eventually(lambda: store.get(namespace, "a1") is None)


async def test_a_server_without_the_feature_is_noticed(tmp_path):
    plane = LocalControlPlane(tmp_path, api_args={"feature-gates": "WatchList=false"})
    async with running(plane), Client(plane.endpoint) as client:
        store = Store()
        reflector = Reflector(client, NAMESPACES, store)
        async with following(reflector.run()):
            await reflector.wait_synced()
            assert not client.supports_streamed_lists
            assert "default" in _names(store)
            assert reflector.restarts == 0


async def test_killed_servers_frozen_servers_and_lost_history(tmp_path):
    """REL-28, REL-31, REL-46."""
    plane = LocalControlPlane(tmp_path)
    async with running(plane), Client(plane.endpoint) as client:
        store, told = Store(), []
        store.subscribe(lambda old, new, _: told.append((new or old).name))
        reflector = Reflector(
            client,
            CONFIG_MAPS,
            store,
            ReflectorOptions(namespace="default", idle_timeout=1.0),
            backoff=_quick(),
        )
        async with following(reflector.run()):
            await reflector.wait_synced()
            await client.create(CONFIG_MAPS, _config_map("default", "a"))
            await eventually(lambda: _names(store) == ["a"])

            plane.kill_apiserver()
            await eventually(lambda: reflector.problem)
            assert _names(store) == ["a"]
            await plane.start()
            await client.create(CONFIG_MAPS, _config_map("default", "b"))
            await eventually(lambda: _names(store) == ["a", "b"])

            plane.pause_apiserver()
            await eventually(lambda: "no answer" in reflector.problem)
            plane.resume_apiserver()
            await client.create(CONFIG_MAPS, _config_map("default", "c"))
            await eventually(lambda: _names(store) == ["a", "b", "c"])
            assert told == ["a", "b", "c"]


async def test_what_happened_without_a_watch_is_found_out(tmp_path):
    """REL-28."""
    plane = LocalControlPlane(tmp_path)
    async with running(plane), Client(plane.endpoint) as client:
        await client.create(CONFIG_MAPS, _config_map("default", "old"))
        store, told = Store(), []
        store.subscribe(lambda old, new, live: told.append(((new or old).name, new is None, live)))
        reflector = Reflector(
            client, CONFIG_MAPS, store, ReflectorOptions(namespace="default"), backoff=_quick()
        )
        async with following(reflector.run()):
            await eventually(lambda: _names(store) == ["old"])
        await client.delete(CONFIG_MAPS, "old", namespace="default")
        await client.create(CONFIG_MAPS, _config_map("default", "new"))
        plane.kill_apiserver()  # its memory of recent changes goes, so the old version is too old
        await plane.start()
        async with following(reflector.run()):
            await eventually(lambda: _names(store) == ["new"])
        assert told[-2:] == [("new", False, False), ("old", True, False)] or told[-2:] == [
            ("old", True, True),
            ("new", False, True),
        ]


async def test_an_empty_store_and_an_older_store_are_noticed(tmp_path):
    plane = LocalControlPlane(tmp_path)
    async with running(plane), Client(plane.endpoint) as client:
        await client.create(CONFIG_MAPS, _config_map("default", "kept"))
        await plane.copy_store("older")
        store = Store()
        reflector = Reflector(
            client, CONFIG_MAPS, store, ReflectorOptions(namespace="default"), backoff=_quick()
        )
        async with following(reflector.run()):
            for number in range(50):
                await client.create(CONFIG_MAPS, _config_map("default", f"lost{number}"))
            await eventually(lambda: len(_names(store)) == 51)
            seen = reflector.revision

            await plane.restart_on_store("older")
            await eventually(lambda: _names(store) == ["kept"], within=20)
            assert reflector.position < seen <= reflector.revision
            await client.create(CONFIG_MAPS, _config_map("default", "live"))
            await eventually(lambda: _names(store) == ["kept", "live"])

            await plane.restart_on_store("empty")
            await eventually(lambda: _names(store) == [], within=20)
            assert reflector.position < seen <= reflector.revision
