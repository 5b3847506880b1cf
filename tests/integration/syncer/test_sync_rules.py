"""Kinds of SyncRules live the same life as built-in kinds, on real API servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kubeio import Object
from kubeio.errors import AlreadyExists, NotFound
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from syncer.rules.registry import SyncedKind
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    SYNC_RULES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tenancy.specs import parse_virtual_cluster
from tenancy.sync_rules import rights
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.integration.syncer import samples, test_kinds
from tests.integration.syncer.samples import KindSample
from tests.integration.syncer.why_runner import start_why_runner
from tests.integration.syncer.world import SYNCER, SyncerWorld, policed
from tests.support.eventually import eventually
from vcmanager.phases.sync_rules import apply_sync_rules
from vcmanager.reconcilers.sync_rules import reconcile_sync_rules
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import SYNC_RULES_KEY

GROUP = "shop.example.io"
OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
KINDS = {"Widget": "widgets", "Gadget": "gadgets", "Order": "orders"}
EVERY_RULE = msgspec.structs.replace(BASELINE_POLICY, sync_rules=ClassFilter(names=("*",)))
"""Policy that selects every SyncRule."""
SPECS: dict[str, Object] = {
    "Widget": {
        "fields": ["spec.size", "spec.parts[].name"],
        "references": [
            {"path": "spec.configRef", "kinds": ["ConfigMap"]},
            {"path": "spec.backends[]", "kinds": ["Service"]},
            {"path": "spec.secretName", "kinds": ["Secret"], "form": "Name"},
        ],
    },
    "Gadget": {"fields": ["spec.size", "spec.options.*"], "statusFields": ["status.**"]},
    "Order": {
        "fields": ["spec.size", "spec.lines.**"],
        "references": [{"path": "spec.widget", "kinds": ["Widget"], "form": "Name"}],
    },
}


def identify(kind: str) -> Object:
    """Return the fields that each object of a CRD must have."""
    return {"apiVersion": f"{GROUP}/v1", "kind": kind}


RULED = {
    "Widget": KindSample(
        body={
            **identify("Widget"),
            "spec": {
                "size": "small",
                "parts": [{"name": "a"}],
                "configRef": {"name": "settings"},
                "backends": [{"name": "web", "namespace": "other"}],
            },
        },
        change={"spec": {"size": "changed"}},
        removal={"spec": {"size": None}},
        drift={"spec": {"size": "drifted"}},
        at=("spec",),
        keys=("size", "parts"),
    ),
    "Gadget": KindSample(
        body={**identify("Gadget"), "spec": {"size": "small", "options": {"a": "1", "b": "2"}}},
        change={"spec": {"options": {"a": "changed"}}},
        removal={"spec": {"options": {"b": None}}},
        drift={"spec": {"options": {"a": "drifted"}}},
        at=("spec", "options"),
    ),
    "Order": KindSample(
        body={
            **identify("Order"),
            "spec": {"size": "small", "widget": "w", "lines": {"x": [{"n": 1}], "y": 2}},
        },
        change={"spec": {"lines": {"y": 3}}},
        removal={"spec": {"lines": {"y": None}}},
        drift={"spec": {"lines": {"y": 4}}},
        at=("spec", "lines"),
    ),
}


def build_definition(kind: str) -> Object:
    """Return the CRD of a kind."""
    plural = get_resource(kind).plural
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}
        },
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def build_rule(kind: str, **spec: Any) -> Object:
    """Return the SyncRule of a kind."""
    plural = get_resource(kind).plural
    resource = {"group": GROUP, "version": "v1", "kind": kind, "plural": plural}
    return {
        "apiVersion": SYNC_RULES.api_version,
        "kind": "SyncRule",
        "metadata": {"name": plural},
        "spec": {"resource": resource, "direction": "Down", **SPECS.get(kind, {}), **spec},
    }


def get_resource(kind: str) -> Resource:
    """Return the coordinates of a kind."""
    return Resource(GROUP, "v1", KINDS.get(kind) or f"{kind.lower()}s", kind)


async def manage(world: SyncerWorld) -> list[Object]:
    """Do what vc-manager does for SyncRules, with its own code. Return the rules."""
    await report(world)
    assert not await write_definitions(world)
    items: list[Object] = (await world.super_client.list(SYNC_RULES))["items"]
    return items


async def report(world: SyncerWorld) -> None:
    """Write the conditions of all SyncRules, as vc-manager does."""
    means = SimpleNamespace(
        super_client=world.super_client,
        now=lambda: datetime.now(UTC),
        enqueue=lambda _: None,
        rule_digests={},
    )
    await reconcile_sync_rules(cast("ReconcileContext", means), SYNC_RULES_KEY)


async def write_definitions(world: SyncerWorld) -> list[str]:
    """Write CRDs and rights into the tenant, as vc-manager does. Return its messages."""
    tenant = world.tenant
    body = await world.super_client.get(VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace)
    cluster = parse_virtual_cluster(body)
    return await apply_sync_rules(world.super_client, world.tenant_client, cluster.spec, body)


async def ensure_definitions(world: SyncerWorld, definitions: Iterable[Object]) -> None:
    """Create CRDs in the super cluster, unless an earlier test has."""
    for body in definitions:
        with contextlib.suppress(AlreadyExists):
            await world.super_client.create(CUSTOM_RESOURCE_DEFINITIONS, body)


async def grant_kinds(world: SyncerWorld) -> None:
    """Grant the syncer the rights of all rules of this module."""
    rules = [
        parse_sync_rule({**build_rule(kind), "metadata": {"name": KINDS[kind]}}) for kind in KINDS
    ]
    await grant(world, rights.build_super_rules(rules))


async def grant(world: SyncerWorld, granted: list[Object]) -> None:
    """Grant the syncer rights as rules do: the chart's binding, and the aggregated role.

    The super cluster of these tests runs no controller that aggregates roles. In the tenant, the
    syncer of the tests has another user name than in the product.
    """
    name = wellknown.SYNCER_RULES_ROLE
    role = {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": granted,
    }
    await world.super_client.apply(CLUSTER_ROLES, role, field_manager="tests")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SYNCER}
    body = {
        "apiVersion": CLUSTER_ROLE_BINDINGS.api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": reference,
        "subjects": [subject],
    }
    await world.super_client.apply(CLUSTER_ROLE_BINDINGS, body, field_manager="tests")
    own = {**body, "metadata": {"name": "tests-rules"}}
    await world.tenant_client.apply(CLUSTER_ROLE_BINDINGS, own, field_manager="tests")


@contextlib.asynccontextmanager
async def ruled(world: SyncerWorld, *kinds: str, **spec: Any) -> AsyncIterator[list[SyncRule]]:
    """Have SyncRules of these kinds, which the tenant's policy selects, for a block."""
    await ensure_definitions(world, map(build_definition, KINDS))
    await grant_kinds(world)
    async with declared(world, [build_rule(kind, **spec) for kind in kinds]) as rules:
        yield rules


@contextlib.asynccontextmanager
async def declared(world: SyncerWorld, bodies: list[Object]) -> AsyncIterator[list[SyncRule]]:
    """Have SyncRules for a block. Their kinds are defined and granted, and a policy selects all."""
    for body in bodies:
        await world.super_client.create(SYNC_RULES, body, validation="Strict")
    async with policed(world, EVERY_RULE):
        try:
            await eventually(
                lambda: manage(world),
                until=lambda rules: all(
                    item["status"]["conditions"][0]["status"] == "True" for item in rules
                ),
            )
            yield [parse_sync_rule(item) for item in await manage(world)]
        finally:
            for body in bodies:
                with contextlib.suppress(NotFound):
                    await world.super_client.delete(SYNC_RULES, body["metadata"]["name"])
    await manage(world)


def get_row(world: SyncerWorld, rules: list[SyncRule], kind: str) -> SyncedKind:
    """Return the row of a ruled kind."""
    return build_ruled_kinds(rules, world.tenant).down[kind]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", RULED)
async def test_life(world: SyncerWorld, kind: str, monkeypatch: pytest.MonkeyPatch):
    """The life-cycle test of the built-in kinds: writes, drift, restarts, deletes, second owner."""
    monkeypatch.setattr(test_kinds, "SAMPLES", {**samples.SAMPLES, **RULED})
    async with ruled(world, *RULED) as rules:
        await test_kinds.test_life(world, get_row(world, rules, kind))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", RULED)
@pytest.mark.parametrize(
    "check",
    [
        test_kinds.test_the_resync_finds_what_events_missed,
        test_kinds.test_a_foreign_object_of_the_name_is_left_alone,
    ],
)
async def test_checks_of_built_in_kinds(
    world: SyncerWorld,
    kind: str,
    check: Callable[[SyncerWorld, SyncedKind], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
):
    """A missed event is found by the resync, and a foreign object stays as it is."""
    monkeypatch.setattr(test_kinds, "SAMPLES", {**samples.SAMPLES, **RULED})
    async with ruled(world, *RULED) as rules, world.syncer():
        await eventually(
            lambda: kind in world.session.kinds and world.session.ruled.is_served(kind),
            within=60,
        )
        await check(world, get_row(world, rules, kind))


async def test_references_status_and_refusals(world: SyncerWorld, tmp_path: Path):
    """References are rewritten, the status comes back, and an unlisted field is refused.

    `kubectl vc why` names the rule and the refusal.
    """
    async with ruled(world, "Widget", "Gadget"), world.syncer():
        space = await world.namespace()
        data = {"metadata": {"name": "settings"}, "data": {"a": "1"}}
        await world.tenant_client.create(CONFIG_MAPS, data, namespace=space)
        widget = get_resource("Widget")
        body = {**RULED["Widget"].body, "metadata": {"name": "w"}}
        body["spec"] = {
            **body["spec"],
            "backends": [{"name": "web", "namespace": space}, {"name": "x", "namespace": "zz"}],
        }
        await world.tenant_client.create(widget, body, namespace=space)
        twin = await eventually(lambda: world.twin(widget, space, "w"), within=30)
        names = [each["namespace"] for each in twin["spec"]["backends"]]
        assert names == [world.super_namespace(space), world.super_namespace("zz")]
        # The rule names the ConfigMap, so it is synced although no pod names it.
        await eventually(lambda: world.twin(CONFIG_MAPS, space, "settings"))

        gadget = get_resource("Gadget")
        await world.tenant_client.create(
            gadget, {**RULED["Gadget"].body, "metadata": {"name": "g"}}, namespace=space
        )
        await eventually(lambda: world.twin(gadget, space, "g"))
        status = {"phase": "Ready", "conditions": [{"type": "A", "status": "True"}]}
        await world.super_client.patch(
            gadget,
            "g",
            {"status": status},
            namespace=world.super_namespace(space),
            subresource="status",
        )
        own = await eventually(
            lambda: world.tenant_client.get(gadget, "g", namespace=space),
            until=lambda found: found.get("status") == status,
        )
        forged = {"status": {"phase": "Forged"}}
        await world.tenant_client.patch(gadget, "g", forged, namespace=space, subresource="status")
        own = await eventually(
            lambda: world.tenant_client.get(gadget, "g", namespace=space),
            until=lambda found: found["status"]["phase"] == "Ready",
        )
        assert own["status"] == status

        bad = {
            **identify("Gadget"),
            "metadata": {"name": "bad"},
            "spec": {"size": "s", "admin": "yes"},
        }
        await world.tenant_client.create(gadget, bad, namespace=space)

        async def list_refusals() -> list[Object]:
            return [each for each in await world.events(space) if each["reason"] == "SyncRejected"]

        told = await eventually(list_refusals, until=bool)
        assert "spec.admin" in told[0]["message"]
        assert "SyncRule gadgets" in told[0]["message"]
        assert not await world.has_twin(gadget, space, "bad")

        runner = await start_why_runner(world, tmp_path)
        found = await runner.ask(f"gadgets.{GROUP}/bad", space)
        assert (found["kind"], found["layer"]) == (f"Gadget.{GROUP}", "policy")
        assert "spec.admin" in found["reason"]
        assert found["tenantLayers"] == ["policy", "policy"]
        found = await runner.ask("Gadget/g", space)
        assert (found["layer"], found["held"]) == ("none", False)
        assert world.super_namespace(space) in found["copy"]
        with contextlib.suppress(AlreadyExists):  # from a rule of an earlier test
            await world.tenant_client.create(CUSTOM_RESOURCE_DEFINITIONS, build_definition("Order"))
        order = {**RULED["Order"].body, "metadata": {"name": "o"}}
        orders = get_resource("Order")
        await eventually(lambda: world.tenant_client.create(orders, order, namespace=space))
        found = await runner.ask("order/o", space)
        assert (found["layer"], found["held"]) == ("not-synced", False)


@pytest.mark.parametrize("removal", ["Keep", "Delete"])
async def test_rules_come_and_go_while_the_syncer_runs(world: SyncerWorld, removal: str):
    """The syncer starts with no rule. A rule begins and ends without a restart."""
    gadget = get_resource("Gadget")
    async with world.syncer():
        space = await world.namespace()
        async with ruled(world, "Gadget", removalPolicy=removal):
            body = {**RULED["Gadget"].body, "metadata": {"name": "g"}}
            await eventually(
                lambda: world.tenant_client.create(gadget, body, namespace=space), within=30
            )
            twin = await eventually(lambda: world.twin(gadget, space, "g"), within=30)
        await eventually(
            lambda: world.super_client.list(SYNC_RULES),
            until=lambda found: not found["items"],
            within=30,
        )
        if removal == "Keep":
            await asyncio.sleep(1)
            still = await world.twin(gadget, space, "g")
            assert still["metadata"]["uid"] == twin["metadata"]["uid"]
        else:
            assert not await world.has_twin(gadget, space, "g")
        await world.tenant_client.get(gadget, "g", namespace=space)  # the tenant's object stays


@pytest.mark.thorough
async def test_a_rule_that_ends_while_the_syncer_is_away_deletes_its_copies(world: SyncerWorld):
    """A deletion raises the generation, so the rule is not Ready until vc-manager reports again."""
    gadget = get_resource("Gadget")
    async with ruled(world, "Gadget", removalPolicy="Delete"):
        async with world.syncer():
            space = await world.namespace()
            body = {**RULED["Gadget"].body, "metadata": {"name": "g"}}
            await eventually(
                lambda: world.tenant_client.create(gadget, body, namespace=space), within=30
            )
            await eventually(lambda: world.twin(gadget, space, "g"), within=30)
        await world.super_client.delete(SYNC_RULES, KINDS["Gadget"])
        async with world.syncer():
            await asyncio.sleep(2)
            assert await world.has_twin(gadget, space, "g")
            assert (await world.super_client.list(SYNC_RULES))["items"]
            await manage(world)
            await eventually(
                lambda: world.super_client.list(SYNC_RULES),
                until=lambda found: not found["items"],
                within=60,
            )
            assert not await world.has_twin(gadget, space, "g")
            await world.tenant_client.get(gadget, "g", namespace=space)
