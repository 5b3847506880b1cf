"""Configuration and tokens that no one needs, and who comes to need them at that moment."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, NotReadyYet
from syncer.controllers import namespaces, sync_down
from syncer.controllers.pods import pod_reconciler, tokens
from syncer.model.keys import TOKEN, Key
from syncer.model.references import ACCOUNT_TOKEN, ObjectReference
from syncer.rules import registry
from syncer.rules.namespaces import build_workload_account
from syncer.rules.network import default_policies
from syncer.rules.pods.token_specs import TokenSpec
from tenancy.resources import SECRETS, Resource
from tests.support.syncer.sessions import CONTAINERS, TOKEN_MARKS, SessionWorld, put
from tests.support.syncer.two_clusters import SplitWorld, key_of

SECRET = registry.KINDS_BY_NAME["Secret"]


@pytest.fixture
def world() -> SessionWorld:
    """Have a Secret below that no pod needs any longer, for long enough."""
    world = SessionWorld()
    world.ready()
    world.session.grace_timers.grace_period_seconds = 0
    assert SECRET.build is not None
    twin = SECRET.build(
        world.tenant_has("Secret", "registry", type="Opaque", data={}).decode(), world.session.view
    )
    twin["metadata"] |= {"uid": "registry-below", "resourceVersion": "60"}
    put(world.session.twins.get_store("Secret"), twin)
    world.below.has("Secret", "registry", twin)
    return world


def pod_comes(world: SessionWorld) -> None:
    volumes = [{"name": "x", "secret": {"secretName": "registry"}}]
    world.tenant_has(
        "Pod", "p", spec={"containers": CONTAINERS, "volumes": volumes}, status={"phase": "Pending"}
    )


async def pod_is_tried(world: SessionWorld) -> None:
    with pytest.raises(NotReadyYet, match="objects that the pod needs"):
        await pod_reconciler.reconcile_pod(
            registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
        )


async def test_it_goes(world):
    key = world.key("Secret", "web", "registry")
    assert isinstance(await sync_down.reconcile(SECRET, key, world.session), Done)
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
    with pytest.raises(NotReadyYet, match=r"^it is needed again$"):
        await sync_down.reconcile(SECRET, key, world.session)
    assert not world.below.writes()
    assert woken[-1] == world.key("Pod", "web", "p")
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], woken[-1], world.session)
    assert world.below.writes() == [("create", "Pod", "p")]


async def test_who_comes_while_it_is_deleted_waits_for_the_next(world, monkeypatch):
    delete = world.below.delete

    async def delete_slowly(resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        pod_comes(world)
        await pod_is_tried(world)
        return await delete(resource, name, **options)

    monkeypatch.setattr(world.below, "delete", delete_slowly)
    key = world.key("Secret", "web", "registry")
    await sync_down.reconcile(SECRET, key, world.session)
    await pod_is_tried(world)  # the cache shows it still
    assert world.below.writes() == [("delete", "Secret", "registry")]


@pytest.mark.parametrize(
    "problem", [errors.Unavailable("reset after it was taken"), errors.NotFound("gone"), None]
)
async def test_what_may_be_gone_is_nothing_to_build_on(world, problem):
    """The answer was lost, someone was faster, or it is not there at the proof already."""
    if problem is None:
        world.below.lacks("Secret", "registry")
    else:
        world.below.refusals["delete Secret"] = problem
    key = world.key("Secret", "web", "registry")
    with contextlib.suppress(errors.Unavailable):
        await sync_down.reconcile(SECRET, key, world.session)
    pod_comes(world)
    await pod_is_tried(world)
    assert not world.below.writes("Pod")


async def test_so_it_is_with_a_token(world, monkeypatch):
    session = world.session
    token = TokenSpec(namespace="web", account="robot", account_uid="robot-uid")
    key = session.build_key(TOKEN, "web", token.secret_name)
    twin = world.super_has(
        "Secret", token.secret_name, uid="robot-uid", metadata={"annotations": TOKEN_MARKS}
    )
    world.below.has("Secret", token.secret_name, twin.decode())
    assert tokens.get_missing_token_key(token, session) is None
    seen: list[object] = []
    get = world.below.get

    async def get_slowly(resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        session.pods.references.set("web", "p", {ObjectReference(ACCOUNT_TOKEN, "robot")})
        seen.append(tokens.get_missing_token_key(token, session))
        return await get(resource, name, **options)

    monkeypatch.setattr(world.below, "get", get_slowly)
    with pytest.raises(NotReadyYet, match=r"^it is needed again$"):
        await tokens.reconcile_token(key, session)
    assert seen == [key]
    assert not world.below.writes()


async def test_a_token_that_has_to_be_recreated_is_not_there_meanwhile(world, monkeypatch):
    """Someone below has made its Secret immutable."""
    session = world.session
    token = TokenSpec(namespace="web", account="robot", account_uid="robot-uid")
    twin = world.super_has(
        "Secret",
        token.secret_name,
        uid="robot-uid",
        metadata={"annotations": TOKEN_MARKS},
        immutable=True,
    )
    world.below.has("Secret", token.secret_name, twin.decode())
    session.pods.references.set("web", "p", {ObjectReference(ACCOUNT_TOKEN, "robot")})
    seen: list[object] = []
    get = world.below.get

    async def get_slowly(resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        seen.append(tokens.get_missing_token_key(token, session))
        return await get(resource, name, **options)

    monkeypatch.setattr(world.below, "get", get_slowly)
    key = session.build_key(TOKEN, "web", token.secret_name)
    await tokens.reconcile_token(key, session)
    assert seen == [key]
    assert world.below.writes() == [("delete", "Secret", token.secret_name)]


async def test_no_pod_comes_into_a_namespace_that_is_left(monkeypatch):
    """In a target only those namespaces are that have pods there."""
    split = SplitWorld()
    far, kind = split.far, registry.KINDS_BY_NAME["Namespace"]
    far.grace_timers.grace_period_seconds = 0
    space = split.tenant_has("Namespace", "web", namespace="").decode()
    assert kind.build is not None
    twin = kind.build(space, far.view)
    twin["metadata"] |= {"uid": "web-below", "resourceVersion": "60"}
    put(far.twins.get_store("Namespace"), twin)
    split.there.has("Namespace", twin["metadata"]["name"], twin)
    account = build_workload_account(far.view, space)
    account["metadata"] |= {"uid": "account", "resourceVersion": "61"}
    put(far.twins.get_store("ServiceAccount"), account)
    entry = far.stores["Namespace"].get("", "web")
    assert entry is not None
    for policy in default_policies.build_default_policies(entry, far.view):
        policy["metadata"] |= {"uid": "policy", "resourceVersion": "62"}
        put(far.twins.get_store("NetworkPolicy"), policy)
    pod = key_of(far)
    assert far.namespaces.get_ready(pod).name == twin["metadata"]["name"]

    async def delete_slowly(*_: object, **__: object) -> dict[str, Any]:
        split.pod(record="c2/0")
        with pytest.raises(NotReadyYet, match="not exist yet"):
            far.namespaces.get_ready(pod)
        return {"kind": "Namespace", "metadata": {"resourceVersion": "62"}}

    monkeypatch.setattr(split.there, "delete", delete_slowly)
    await namespaces.reconcile_namespace(kind, far.build_key("Namespace", "", "web"), far)
    with pytest.raises(NotReadyYet, match="not exist yet"):
        far.namespaces.get_ready(pod)
