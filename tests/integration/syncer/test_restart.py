"""The syncer after a restart: it writes nothing if nothing has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from syncer.handlers.resync import Resync
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import LINGER, SyncerWorld, SyncerWrite
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name


@pytest.fixture
async def own(super_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    """A tenant that has nothing of earlier tests, about which the super cluster tells Events."""
    async with own_world(super_plane, tmp_path / fresh_name("tenant")) as world:
        yield world


def written(world: SyncerWorld, super_mark: AuditMark, tenant_mark: AuditMark) -> list[SyncerWrite]:
    """Return the syncer's writes for the tenant, on both sides, from places in the logs on."""
    super_writes = world.writes("super", super_mark)
    mine = [write for write in super_writes if write.namespace.startswith(world.tenant.root)]
    return [*mine, *world.writes("tenant", tenant_mark)]


async def furnish(world: SyncerWorld) -> tuple[str, str]:
    """Make one of everything and let it come to rest, the store's mark included."""
    space, node = await world.namespace(), await world.super_node()
    await world.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"a": "1"}}, namespace=space
    )
    await world.tenant_client.create(
        SECRETS, {"metadata": {"name": "keys"}, "stringData": {"k": "v"}}, namespace=space
    )
    port = {"port": 80, "nodePort": 0}
    await world.tenant_client.create(
        SERVICES,
        {
            "metadata": {"name": "web"},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [port]},
        },
        namespace=space,
    )
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
    ]
    await world.tenant_client.create(PODS, pod("web", volumes=volumes), namespace=space)
    await world.tenant_client.create(PODS, pod("refused", hostNetwork=True), namespace=space)
    await world.start_pod(space, "web", node)
    await eventually(lambda: world.twin(SERVICES, space, "web"))
    await world.idle()
    world.session.connection.enqueue_status()
    await eventually(lambda: not world.session.store_guard.is_count_due)
    await world.idle()
    await asyncio.sleep(2 * LINGER)
    await world.idle()
    return space, node


async def test_a_restart_with_nothing_changed_writes_nothing(own: SyncerWorld):
    world = own
    async with world.syncer():
        await furnish(world)
    super_mark, tenant_mark = world.mark("super"), world.mark("tenant")
    async with world.syncer():
        await asyncio.sleep(1.0)
        await world.idle()
    assert written(world, super_mark, tenant_mark) == []


async def test_the_resync_finds_nothing_at_rest_and_what_events_missed(own: SyncerWorld):
    """REL-11: it wakes the key of what it finds, and writes nothing itself."""
    async with own.syncer():
        space, _ = await furnish(own)
        super_mark, tenant_mark = own.mark("super"), own.mark("tenant")
        resync = Resync(own.running[-1].tenants.sessions)
        await resync.resync_session(own.session)
        await own.idle()
        assert written(own, super_mark, tenant_mark) == []
        # A change whose event got lost: the cache has it, no key was woken.
        session = own.session
        session.work.is_ready = False
        await own.super_client.delete(CONFIG_MAPS, "settings", namespace=own.super_namespace(space))
        store = session.twins.get_store("ConfigMap")
        await eventually(lambda: store.get(own.super_namespace(space), "settings") is None)
        session.work.is_ready = True
        await asyncio.sleep(0.2)
        assert not await own.has_twin(CONFIG_MAPS, space, "settings")
        assert await resync.resync_session(session)
        await eventually(lambda: own.twin(CONFIG_MAPS, space, "settings"))


async def test_what_happened_in_the_meantime_is_caught_up(world: SyncerWorld):
    """A super pod ends, and a tenant object is deleted and another created. Nothing restarts."""
    async with world.syncer():
        space, node = await furnish(world)
        await world.tenant_client.create(PODS, pod("job", restartPolicy="Never"), namespace=space)
        await world.start_pod(space, "job", node)
        await world.tenant_client.create(PODS, pod("going"), namespace=space)
        await world.start_pod(space, "going", node)
    before = await world.twin(PODS, space, "web")
    await world.report(space, "job", phase="Succeeded")
    await world.tenant_client.delete(PODS, "going", namespace=space, grace_seconds=0)
    await world.tenant_client.delete(SERVICES, "web", namespace=space)
    await world.tenant_client.create(PODS, pod("new"), namespace=space)
    super_mark = world.mark("super")
    async with world.syncer():
        await eventually(
            lambda: world.tenant_client.get(PODS, "job", namespace=space),
            until=lambda body: body["status"]["phase"] == "Succeeded",
        )
        await eventually(lambda: world.twin(PODS, space, "new"))
        await gone(lambda: world.twin(SERVICES, space, "web"))
        await world.remove_pod(space, "going")
        await world.idle()
        assert await world.has_twin(PODS, space, "job")
    after = await world.twin(PODS, space, "web")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    writes = [
        w for w in world.writes("super", super_mark) if w.namespace == world.super_namespace(space)
    ]
    deletes = [write for write in writes if write.verb == "delete"]
    assert sorted((write.resource, write.name) for write in deletes) == [
        ("pods", "going"),
        ("services", "web"),
    ]


async def test_a_lost_answer_is_recognised_as_our_own_work(world: SyncerWorld):
    """REL-02: the twin was made, its answer was lost, and the cache has not shown it yet."""
    async with world.syncer():
        space = await world.namespace()
        session = world.session
        session.work.is_ready = False  # the syncer is about to be killed
        await world.tenant_client.create(
            CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}}, namespace=space
        )
        await world.tenant_client.create(
            PODS,
            pod("web", volumes=[{"name": "c", "configMap": {"name": "c"}}]),
            namespace=space,
        )
    made = await world.tenant_client.get(CONFIG_MAPS, "c", namespace=space)
    from tenancy import ownership  # noqa: PLC0415 - only here

    await world.super_client.create(
        CONFIG_MAPS,
        {
            "metadata": {
                "name": "c",
                "labels": ownership.build_owner_labels(world.tenant, space),
                "annotations": ownership.build_owner_annotations(
                    world.tenant, space, made["metadata"]["uid"]
                ),
            },
            "data": {"a": "0"},
        },
        namespace=world.super_namespace(space),
    )
    async with world.syncer():
        twin = await eventually(
            lambda: world.twin(CONFIG_MAPS, space, "c"), until=lambda body: body["data"]["a"] == "1"
        )
        assert twin["metadata"]["annotations"][wellknown.UID] == made["metadata"]["uid"]
        await eventually(lambda: world.twin(PODS, space, "web"))
