"""Kinds of SyncRules with the placement WithPods, with a real API server as the target."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import AlreadyExists, NotFound
from syncer.rules.registry import SyncedKind
from syncer.tenants.session import Session
from tenancy import conditions, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    SUPER_CLUSTERS,
)
from tenancy.sync_rules import rights
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.integration.syncer import samples, test_kinds, test_sync_rules
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import TargetWorld, open_target_world
from tests.integration.syncer.test_assigned_clusters import (  # noqa: F401 - fixtures
    THERE,
    open_own_world,
    own_plane,
    second,
    tenant,
)
from tests.integration.syncer.test_kinds import KindLifecycle
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_sync_rules import (
    KINDS,
    RULED,
    SPECS,
    build_definition,
    build_rule,
    get_resource,
    get_row,
    ruled,
)
from tests.integration.syncer.world import SYNCER, SyncerWrite
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.grants import build_grant, build_user
from tests.support.names import fresh_name
from tests.support.own_address import needs_address

pytestmark = needs_address

_WIDGET = copy.deepcopy(RULED["Widget"].body)
del _WIDGET["spec"]["backends"]  # Services are in the home cluster only
PLACED = {**RULED, "Widget": dataclasses.replace(RULED["Widget"], body=_WIDGET)}


@pytest.fixture
async def split(
    super_plane: LocalControlPlane,
    own_plane: LocalControlPlane,  # noqa: F811
    tenant: Tenant,  # noqa: F811
    second: LocalControlPlane,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[TargetWorld]:
    """A target that is declared and granted. No syncer runs yet."""
    references = [each for each in SPECS["Widget"]["references"] if each["kinds"] != ["Service"]]
    monkeypatch.setitem(SPECS, "Widget", {**SPECS["Widget"], "references": references})
    monkeypatch.setattr(test_sync_rules, "RULED", PLACED)
    monkeypatch.setattr(test_kinds, "SAMPLES", {**samples.SAMPLES, **PLACED})
    async with (
        open_own_world(super_plane, own_plane, tenant) as world,
        open_target_world(world, second) as found,
    ):
        await found.secret()
        await found.declare()
        await found.grant({"name": "home"}, {"name": found.name})
        yield found


async def serve(target: TargetWorld) -> None:
    """Have the target serve all kinds, and grant them as the aggregated role does."""
    for kind in KINDS:
        with contextlib.suppress(AlreadyExists):
            definition = build_definition(kind)
            await target.target_client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await grant(target, *KINDS)


async def grant(target: TargetWorld, *kinds: str) -> None:
    """Grant the syncer exactly these kinds in the target."""
    rules = [
        parse_sync_rule({**build_rule(kind), "metadata": {"name": KINDS[kind]}}) for kind in kinds
    ]
    granted = rights.build_super_rules(rules)
    role, binding = build_grant(granted, build_user(SYNCER), name=wellknown.SYNCER_RULES_ROLE)
    await target.target_client.apply(CLUSTER_ROLES, role, field_manager="tests")
    await target.target_client.apply(CLUSTER_ROLE_BINDINGS, binding, field_manager="tests")


@contextlib.asynccontextmanager
async def placed(target: TargetWorld, *kinds: str, **spec: Any) -> AsyncIterator[list[SyncRule]]:
    """Have SyncRules of these kinds, whose copies follow pods, for a block."""
    async with ruled(target.world, *kinds, placement="WithPods", **spec) as rules:
        yield rules


@contextlib.asynccontextmanager
async def running_there(target: TargetWorld, space: str, name: str = "user") -> AsyncIterator[None]:
    """Have a pod of a namespace run in the target for a block."""
    world = target.world
    await world.tenant_client.create(PODS, pod(name, nodeSelector=THERE), namespace=space)
    await target.start_pod(space, name)
    await eventually(
        lambda: world.tenant_client.get(PODS, name, namespace=space),
        until=lambda found: found["spec"].get("nodeName") == target.node,
    )
    try:
        yield
    finally:
        await end_pod(target, space, name)


async def end_pod(target: TargetWorld, space: str, name: str) -> None:
    """End a pod on both sides, whether or not a syncer runs."""
    below = target.world.super_namespace(space)
    with contextlib.suppress(NotFound):
        await target.world.tenant_client.delete(PODS, name, namespace=space, grace_seconds=0)
    with contextlib.suppress(NotFound):
        await target.target_client.delete(PODS, name, namespace=below, grace_seconds=0)


class TargetLifecycle(KindLifecycle):
    """The same object with its twin in a target."""

    target: TargetWorld

    def __init__(self, target: TargetWorld, kind: SyncedKind, space: str) -> None:
        object.__setattr__(self, "target", target)
        super().__init__(world=target.world, kind=kind, space=space)

    @property
    def super_client(self) -> Client:
        return self.target.target_client

    @property
    def session(self) -> Session:
        return self.world.running[-1].tenants.sessions[self.target.name][self.world.tenant.uid]

    def mark(self) -> AuditMark:
        return self.target.plane.audit_mark()

    def writes(self, since: AuditMark) -> list[SyncerWrite]:
        return self.world.writes_in(self.target.plane, since)

    async def prepare(self) -> None:
        """Have a pod of the namespace in the target."""
        await self.world.namespace(self.space)
        body = pod("user", nodeSelector=THERE)
        await self.world.tenant_client.create(PODS, body, namespace=self.space)
        await self.target.start_pod(self.space, "user")
        await self.world.idle()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PLACED)
async def test_life(split: TargetWorld, kind: str):
    """The life-cycle test of the built-in kinds: writes, drift, restarts, deletes, second owner."""
    await serve(split)
    async with placed(split, *PLACED) as rules:
        life = TargetLifecycle(split, get_row(split.world, rules, kind), test_kinds.very_long())
        try:
            await test_kinds.live(life)
            assert not await split.world.has_twin(life.kind.resource, life.space, test_kinds.NAME)
        finally:
            await end_pod(split, life.space, "user")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PLACED)
@pytest.mark.parametrize("check", [test_kinds.find_missed, test_kinds.leave_foreign_alone])
async def test_checks_of_built_in_kinds(
    split: TargetWorld, kind: str, check: Callable[[KindLifecycle], Awaitable[None]]
):
    """A missed event is found by the resync, and a foreign object stays as it is."""
    await serve(split)
    async with placed(split, *PLACED) as rules, split.world.syncer():
        life = TargetLifecycle(split, get_row(split.world, rules, kind), fresh_name("n"))
        try:
            await life.prepare()
            await eventually(lambda: life.session.ruled.is_served(kind), within=60)
            await check(life)
        finally:
            await end_pod(split, life.space, "user")


async def create(target: TargetWorld, kind: str, space: str, name: str, **spec: Any) -> Object:
    """Have the tenant create an object as soon as its API serves the kind."""
    body = {**PLACED[kind].body, "metadata": {"name": name}}
    body["spec"] = {**body["spec"], **spec}
    client, resource = target.world.tenant_client, get_resource(kind)
    return await eventually(lambda: client.create(resource, body, namespace=space), within=30)


async def show(client: Client, kind: str, space: str, name: str, phase: str) -> None:
    """Write a status as a controller does."""
    status = {"status": {"phase": phase}}
    await client.patch(get_resource(kind), name, status, namespace=space, subresource="status")


async def test_a_copy_follows_the_pods_and_its_status_comes_back(split: TargetWorld):
    """First the pods are in the target, then in both clusters, then nowhere."""
    world, gadget = split.world, get_resource("Gadget")
    await serve(split)
    async with placed(split, "Widget", "Gadget"), world.syncer():
        space = await world.namespace()
        below = world.super_namespace(space)
        data = {"metadata": {"name": "settings"}, "data": {"a": "1"}}
        await world.tenant_client.create(CONFIG_MAPS, data, namespace=space)
        await create(split, "Gadget", space, "g")
        await create(split, "Widget", space, "w")

        async def wait_phase(phase: str) -> None:
            await eventually(
                lambda: world.tenant_client.get(gadget, "g", namespace=space),
                until=lambda found: (found.get("status") or {}).get("phase") == phase,
            )

        async with running_there(split, space):
            await eventually(lambda: split.twin(space, "g", gadget), within=30)
            await eventually(lambda: split.twin(space, "w", get_resource("Widget")))
            found = await eventually(lambda: split.twin(space, "settings", CONFIG_MAPS))
            assert found["data"] == {"a": "1"}
            assert not await world.has_twin(gadget, space, "g")
            assert not await world.has_twin(CONFIG_MAPS, space, "settings")
            await show(split.target_client, "Gadget", below, "g", "There")
            await wait_phase("There")

            home = {"nodeSelector": {"kubernetes.io/hostname": await world.super_node()}}
            await world.tenant_client.create(PODS, pod("home", **home), namespace=space)
            await eventually(lambda: world.twin(gadget, space, "g"), within=30)
            await show(world.super_client, "Gadget", below, "g", "Home")
            await wait_phase("Home")
            await show(split.target_client, "Gadget", below, "g", "Ignored")
            await world.idle()
            await wait_phase("Home")

            await world.tenant_client.delete(PODS, "home", namespace=space, grace_seconds=0)
            with contextlib.suppress(NotFound):
                await world.super_client.delete(PODS, "home", namespace=below, grace_seconds=0)
            await gone(lambda: world.twin(gadget, space, "g"))
            await wait_phase("Ignored")
        await gone(lambda: split.twin(space, "g", gadget))
        await gone(lambda: split.target_client.get(NAMESPACES, below))
        await world.tenant_client.get(gadget, "g", namespace=space)


async def test_a_target_without_the_kind_is_reported_and_runs_pods(split: TargetWorld):
    """First the right is missing. The condition and the Event have the remedy."""
    world, gadget = split.world, get_resource("Gadget")
    await serve(split)
    await grant(split)
    async with placed(split, "Gadget"), world.syncer():
        space = await world.namespace()
        await create(split, "Gadget", space, "g")

        async def fetch_served() -> Object:
            body = await world.super_client.get(SUPER_CLUSTERS, split.name)
            listed = body["status"].get("conditions")
            return dict(conditions.find_condition(listed, "SyncRulesServed") or {})

        async with running_there(split, space):
            found = await eventually(
                fetch_served, until=lambda told: told.get("status") == "False", within=60
            )
            assert "SyncRule gadgets" in found["message"]
            assert wellknown.AGGREGATE_TO_SYNCER in found["message"]

            async def list_told() -> list[Object]:
                told = await world.events(space)
                return [each for each in told if each["reason"] == "NotServedInTarget"]

            events = await eventually(list_told, until=bool, within=60)
            assert split.node in events[0]["message"]
            assert not await world.has_twin(gadget, space, "g")
            await grant(split, "Gadget")
            await eventually(lambda: split.twin(space, "g", gadget), within=90)
            await eventually(
                fetch_served, until=lambda told: told.get("status") == "True", within=60
            )


async def test_a_deleted_rule_deletes_its_copies_in_targets(split: TargetWorld):
    """The finalizer holds the rule until the target has no copy."""
    world, gadget = split.world, get_resource("Gadget")
    await serve(split)
    async with world.syncer():
        space = await world.namespace()
        async with running_there(split, space):
            async with placed(split, "Gadget", removalPolicy="Delete"):
                await create(split, "Gadget", space, "g")
                await eventually(lambda: split.twin(space, "g", gadget), within=30)
            await eventually(
                lambda: world.super_client.list(test_sync_rules.SYNC_RULES),
                until=lambda found: not found["items"],
                within=60,
            )
            assert not await split.has_twin(space, "g", gadget)
            await world.tenant_client.get(gadget, "g", namespace=space)
