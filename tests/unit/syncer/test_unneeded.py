"""Configuration and tokens that nobody needs, and who comes to need them at that moment."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.worker import Done, Wait
from syncer import downward, kinds
from syncer.flows import pods, tokens
from syncer.keys import TOKEN, Key
from syncer.references import ACCOUNT_TOKEN, Ref
from syncer.special.token_specs import TokenSpec
from tenancy.resources import SECRETS, Resource
from tests.unit.syncer.sessions import CONTAINERS, TOKEN_MARKS, World, put

SECRET = kinds.BY_NAME["Secret"]


@pytest.fixture
def world() -> World:
    """Have a Secret below that no pod needs any more, for long enough."""
    world = World()
    world.ready()
    world.session.reminders.linger_seconds = 0
    assert SECRET.build is not None
    twin = SECRET.build(
        world.tenant_has("Secret", "registry", type="Opaque", data={}).decode(), world.session.view
    )
    twin["metadata"] |= {"uid": "registry-below", "resourceVersion": "60"}
    put(world.session.super_store("Secret"), twin)
    world.below.objects["Secret", "registry"] = twin
    return world


def pod_comes(world: World) -> None:
    volumes = [{"name": "x", "secret": {"secretName": "registry"}}]
    world.tenant_has(
        "Pod", "p", spec={"containers": CONTAINERS, "volumes": volumes}, status={"phase": "Pending"}
    )


async def pod_is_tried(world: World) -> None:
    with pytest.raises(Wait, match="objects that the pod needs"):
        await pods.reconcile(kinds.BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session)


async def test_it_goes(world):
    key = world.key("Secret", "web", "registry")
    assert isinstance(await downward.reconcile(SECRET, key, world.session), Done)
    assert world.below.writes() == [("delete", "Secret", "registry")]


async def test_who_comes_while_its_end_is_proved_keeps_it(world, monkeypatch):
    get = world.below.get

    async def get_slowly(resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        if resource is SECRETS:
            pod_comes(world)
            await pod_is_tried(world)
        return await get(resource, name, **options)

    monkeypatch.setattr(world.below, "get", get_slowly)
    woken: list[Key] = []
    monkeypatch.setattr(world.session.queue, "add", lambda key, **_: woken.append(key))
    key = world.key("Secret", "web", "registry")
    with pytest.raises(Wait, match="needed again"):
        await downward.reconcile(SECRET, key, world.session)
    assert not world.below.writes()
    assert woken[-1] == world.key("Pod", "web", "p")
    await pods.reconcile(kinds.BY_NAME["Pod"], woken[-1], world.session)
    assert world.below.writes() == [("create", "Pod", "p")]


async def test_who_comes_while_it_is_deleted_waits_for_the_next(world, monkeypatch):
    delete = world.below.delete

    async def delete_slowly(resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        pod_comes(world)
        await pod_is_tried(world)
        return await delete(resource, name, **options)

    monkeypatch.setattr(world.below, "delete", delete_slowly)
    key = world.key("Secret", "web", "registry")
    await downward.reconcile(SECRET, key, world.session)
    await pod_is_tried(world)  # the cache shows it still
    assert world.below.writes() == [("delete", "Secret", "registry")]


async def test_so_it_is_with_a_token(world, monkeypatch):
    session = world.session
    token = TokenSpec(namespace="web", account="robot", account_uid="robot-uid")
    key = session.key(TOKEN, "web", token.secret_name)
    twin = world.super_has(
        "Secret", token.secret_name, uid="robot-uid", metadata={"annotations": TOKEN_MARKS}
    )
    world.below.objects["Secret", token.secret_name] = twin.decode()
    assert tokens.demand(token, session) is None
    seen: list[object] = []
    get = world.below.get

    async def get_slowly(resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        session.pods.references.set("web", "p", {Ref(ACCOUNT_TOKEN, "robot")})
        seen.append(tokens.demand(token, session))
        return await get(resource, name, **options)

    monkeypatch.setattr(world.below, "get", get_slowly)
    with pytest.raises(Wait, match="needed again"):
        await tokens.reconcile(key, session)
    assert seen == [key]
    assert not world.below.writes()
