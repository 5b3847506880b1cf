"""Every kind that goes down lives the same life. Each write is counted, so that flapping shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from kubeio import Object
from kubeio.api.client import Client
from syncer.handlers.resync import Resync
from syncer.rules.registry import KINDS, SyncedKind, UpdateMethod
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.samples import SAMPLES, KindSample
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import LINGER, SyncerWorld, SyncerWrite
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough

NAME = "x"
_REFUSED = 400
_CONFLICT = 409
"""Of a claim it counts for nothing: the binder and its protection write it meanwhile."""
REPAIRED = 10.0
"""Seconds that drift may last on a busy machine. The resync alone would take minutes."""
_CHANGES = {UpdateMethod.REPLACE: "update", UpdateMethod.MERGE: "patch", UpdateMethod.OWN: "patch"}
BY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
IN_NAMESPACES = pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.resource.namespaced],
    ids=lambda kind: kind.resource.kind,
)


def very_long() -> str:
    """Return a namespace's name of 63 characters, as long as they get."""
    return f"{fresh_name('long')}-{'y' * 63}"[:63]


@dataclass(frozen=True, kw_only=True)
class KindLifecycle:
    """One object on both sides: all actors except the syncer."""

    world: SyncerWorld
    kind: SyncedKind
    space: str
    """The tenant namespace that it is in, or that it is."""

    @property
    def super_client(self) -> Client:
        """The administrator of the super cluster with the twin."""
        return self.world.super_client

    @property
    def session(self) -> Session:
        """The running syncer's session with the super cluster."""
        return self.world.session

    def mark(self) -> AuditMark:
        """Return this moment in the audit log of the super cluster."""
        return self.world.mark("super")

    def writes(self, since: AuditMark) -> list[SyncerWrite]:
        """Return the syncer's writes in the super cluster."""
        return self.world.writes("super", since)

    @property
    def sample(self) -> KindSample:
        """The change of the object."""
        return SAMPLES[self.kind.resource.kind]

    @property
    def tenant_key(self) -> tuple[str, str]:
        """Namespace and name in the tenant."""
        return (self.space, NAME) if self.kind.resource.namespaced else ("", self.space)

    @property
    def super_key(self) -> tuple[str, str]:
        """Namespace and name in the super cluster."""
        place = self.world.super_namespace(self.space)
        return (place, NAME) if self.kind.resource.namespaced else ("", place)

    async def prepare(self) -> None:
        """Have what the object needs around it."""
        if not self.kind.resource.namespaced:
            return
        await self.world.namespace(self.space)
        if not self.sample.is_referred_to:
            return
        volumes = [
            {"name": "c", "configMap": {"name": NAME, "optional": True}},
            {"name": "s", "secret": {"secretName": NAME, "optional": True}},
        ]
        await self.world.tenant_client.create(
            PODS, pod("user", volumes=volumes), namespace=self.space
        )
        await eventually(lambda: self.world.twin(PODS, self.space, "user"))
        await self.world.idle()

    async def make(self) -> Object:
        """Let the tenant make the object."""
        world, (namespace, name), resource = self.world, self.tenant_key, self.kind.resource
        notes = {"note": "a"}
        metadata = {"name": name, "labels": dict(self.sample.labels), "annotations": notes}
        body = {**self.sample.body, "metadata": metadata}
        made = await world.tenant_client.create(resource, body, namespace=namespace)
        if self.sample.status is not None:
            status = {"status": self.sample.status}
            await world.tenant_client.patch(
                resource, name, status, namespace=namespace, subresource="status"
            )
        return made

    async def own(self) -> Object:
        """Return the tenant's object."""
        namespace, name = self.tenant_key
        return await self.world.tenant_client.get(self.kind.resource, name, namespace=namespace)

    async def twin(self) -> Object:
        """Return the super object."""
        namespace, name = self.super_key
        return await self.super_client.get(self.kind.resource, name, namespace=namespace)

    async def change(self, patch: Object) -> None:
        """Let the tenant change the object."""
        namespace, name = self.tenant_key
        await self.world.tenant_client.patch(self.kind.resource, name, patch, namespace=namespace)

    async def meddle(self, patch: Object) -> None:
        """Let someone change the twin."""
        namespace, name = self.super_key
        await self.super_client.patch(self.kind.resource, name, patch, namespace=namespace)

    async def delete(self) -> None:
        """Let the tenant delete the object, and wait until it is gone there."""
        namespace, name = self.tenant_key
        await self.world.tenant_client.delete(self.kind.resource, name, namespace=namespace)
        await gone(self.own)

    async def remove_twin(self) -> None:
        """Let someone delete the twin."""
        namespace, name = self.super_key
        await self.super_client.delete(self.kind.resource, name, namespace=namespace)

    def is_as_wanted(self, own: Object, twin: Object) -> bool:
        """Return whether a twin says what the tenant's object does, and is that object's."""
        wanted = self.sample.value(own) if self.sample.carries_changes else self.sample.super_patch
        notes = twin["metadata"]["annotations"]
        return (
            (notes.get("note") == "a" or not self.sample.carries_changes)
            and self.sample.value(twin) == wanted
            and notes[wellknown.UID] == own["metadata"]["uid"]
        )

    async def in_step(self, *, unlike: str = "", within: float = 30.0) -> Object:
        """Wait until the twin is as wanted. `unlike`: and another than that of this UID."""
        own = await self.own()
        return await eventually(
            self.twin,
            until=lambda twin: self.is_as_wanted(own, twin) and twin["metadata"]["uid"] != unlike,
            within=within,
        )

    def verbs(self, since: AuditMark, *, landed: bool = False) -> list[str]:
        """Return the syncer's writes about the twin, or those that took effect."""
        return [
            write.verb
            for write in self.writes(since)
            if write.resource == self.kind.resource.plural
            and write.name == self.super_key[1]
            and write.namespace in (self.super_key[0], "", self.super_key[1])
            and not (write.code == _CONFLICT and self.kind.resource == PERSISTENT_VOLUME_CLAIMS)
            and not (landed and write.code >= _REFUSED)
        ]

    @contextlib.asynccontextmanager
    async def costing(self, *verbs: str, landed: bool = False) -> AsyncIterator[None]:
        """Count the writes of a block, and of the rest after it."""
        since = self.mark()
        yield
        if self.world.running:
            await self.world.idle()
        assert self.verbs(since, landed=landed) == list(verbs)


@BY_KIND
async def test_life(world: SyncerWorld, kind: SyncedKind):
    """REL-04, REL-09, REL-39: from the first write to a name's second owner.

    The namespace's name is hashed in the super cluster.
    """
    await live(KindLifecycle(world=world, kind=kind, space=very_long()))


async def live(life: KindLifecycle) -> None:
    """Live the whole life. No syncer may run at the begin."""
    world, changed = life.world, _CHANGES[life.kind.update_method]
    per_change = (changed,) if life.sample.carries_changes else ()
    async with world.syncer():
        await life.prepare()
        assert len(world.super_namespace(life.space)) == 63
        assert life.space not in world.super_namespace(life.space)
        async with life.costing("create"):
            await life.make()
            first = await life.in_step()
        for patch in (life.sample.change, life.sample.removal):
            async with life.costing(*per_change):
                await life.change(patch)
                await life.in_step()
        async with life.costing(changed):
            await life.meddle(life.sample.drift)
            await life.in_step(within=REPAIRED)
        async with life.costing(*per_change):
            await life.meddle({"metadata": {"annotations": {"note": "b"}}})
            await life.in_step(within=REPAIRED)
        async with life.costing():
            await life.meddle({"metadata": {"annotations": {"operator.example/checked": "yes"}}})
            await asyncio.sleep(0.2)
        # The address of a deleted Service is free a moment later, so a first try may be refused.
        async with life.costing("create", landed=True):
            await life.remove_twin()
            second = await life.in_step(unlike=first["metadata"]["uid"])
        async with life.costing():
            await asyncio.sleep(2 * LINGER)
    async with life.costing("delete"):
        await life.delete()
        async with world.syncer():
            await gone(life.twin, within=30)
            await world.idle()
    async with life.costing("create"), world.syncer():
        await life.make()
        third = await life.in_step(unlike=second["metadata"]["uid"])
        await world.idle()
    await life.delete()
    await life.make()
    async with life.costing("delete", "create", landed=True), world.syncer():
        await life.in_step(unlike=third["metadata"]["uid"])
        await world.idle()
    async with life.costing(), world.syncer():
        await asyncio.sleep(0.2)
        await world.idle()
    async with world.syncer(), life.costing("delete"):
        await life.delete()
        await gone(life.twin, within=30)


@BY_KIND
async def test_the_resync_finds_what_events_missed(synced: SyncerWorld, kind: SyncedKind):
    """The cache has the change and no key was woken. At rest the resync finds nothing."""
    life = KindLifecycle(world=synced, kind=kind, space=fresh_name("n"))
    await life.prepare()
    await find_missed(life)


async def find_missed(life: KindLifecycle) -> None:
    """Have an event missed, and the resync find the change. The object is prepared."""
    world, kind, session = life.world, life.kind, life.session
    resync = Resync(world.running[-1].tenants.sessions)
    await life.make()
    await life.in_step()
    await world.idle()
    seen = session.twins.get_store(kind.resource.kind)
    async with life.costing():
        session.work.is_ready = False
        await life.meddle(life.sample.drift)
        drifted = (await life.twin())["metadata"]["resourceVersion"]
        await eventually(
            lambda: seen.get(*life.super_key),
            until=lambda entry: entry is not None and entry.resource_version == drifted,
        )
        session.work.is_ready = True
        await asyncio.sleep(0.2)
    async with life.costing(_CHANGES[kind.update_method]):
        assert await resync.resync_session(session)
        await life.in_step(within=REPAIRED)
    async with life.costing():
        await resync.resync_session(session)
        await asyncio.sleep(0.1)


def test_every_sample_is_of_a_kind_in_the_table():
    assert set(SAMPLES) == {kind.resource.kind for kind in KINDS}


@IN_NAMESPACES
async def test_a_foreign_object_of_the_name_is_left_alone(synced: SyncerWorld, kind: SyncedKind):
    life = KindLifecycle(world=synced, kind=kind, space=fresh_name("n"))
    await life.prepare()
    await leave_foreign_alone(life)


async def leave_foreign_alone(life: KindLifecycle) -> None:
    """Have a foreign object with the name of the twin. The object is prepared."""
    synced, kind = life.world, life.kind
    place, name = life.super_key
    foreign = {**life.sample.body, "metadata": {"name": name}}
    if kind.resource is PODS:
        foreign["spec"] = {**foreign["spec"], "serviceAccountName": "vc-workload"}
    made = await life.super_client.create(kind.resource, foreign, namespace=place)
    since = life.mark()
    own = await life.make()
    found = await eventually(lambda: synced.events(life.space))
    told = {(item["reason"], item["involvedObject"]["uid"]) for item in found}
    assert told == {("NameTaken", own["metadata"]["uid"])}
    assert place not in str(found)
    await life.delete()
    await asyncio.sleep(0.2)
    await synced.idle()
    still = await life.twin()
    assert still["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert set(life.verbs(since)) <= {"create"}
