"""Caches of kinds that SyncRules declare: the rules of a target, and the end of a deleted rule."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import orjson
import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Store, parse_entry
from kubeio.loop_budget import LoopBudget
from syncer.clusters import ruled_caches
from syncer.clusters.home_ruled_caches import HomeRuledCaches
from syncer.clusters.ruled_caches import RuledCacheOptions, RuledCaches
from tenancy import wellknown
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.eventually import eventually
from tests.support.memapi import clusters, verbs
from tests.support.memapi.served import Served

OPTIONS = RuledCacheOptions(
    label_selector="",
    create_store=Store,
    loop_budget=LoopBudget(),
    is_budget_spent=lambda: False,
)
WIDGETS = Resource("example.io", "v1", "widgets", "Widget")


def build_rule(name: str = "widgets", *, deleted: bool = False, **spec: Any) -> dict[str, Any]:
    """Return a rule that vc-manager has accepted."""
    metadata: dict[str, Any] = {"name": name, "uid": name, "resourceVersion": "5", "generation": 1}
    if deleted:
        metadata |= {
            "resourceVersion": "6",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [wellknown.SYNC_RULE_FINALIZER],
        }
    kind = name.capitalize().removesuffix("s")
    resource = {"group": "example.io", "version": "v1", "kind": kind, "plural": name}
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    found = {"resource": resource, "direction": "Down", "fields": ["spec.size"], **spec}
    return {"metadata": metadata, "spec": found, "status": {"conditions": [ready]}}


@contextlib.asynccontextmanager
async def follow(
    server: Served, rules: Store, kind: type[RuledCaches] = RuledCaches
) -> AsyncIterator[tuple[RuledCaches, dict[str, Store]]]:
    """Follow the rules for the length of a block."""
    stores: dict[str, Store] = {}
    async with server.running(), Client(server.endpoint) as client:
        caches = kind(client, rules, stores, OPTIONS)
        task = asyncio.create_task(caches.run())
        try:
            yield caches, stores
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def put_rule(rules: Store, **rule: Any) -> None:
    rules.put(parse_entry(orjson.dumps(build_rule(**rule))), live=True)


async def test_a_target_has_the_kinds_whose_copies_follow_pods():
    """They begin and end while the target is connected, and report what it does not serve."""
    cluster, rules = clusters.fresh("c2", "10.96.0.0/16", accounts=False), Store()
    added: list[str] = []
    complete: list[str] = []
    put_rule(rules, name="gadgets")
    async with follow(Served(cluster), rules) as (caches, stores):
        caches.subscribe_added(lambda kind, _: added.append(kind))
        caches.subscribe_complete(complete.append)
        assert caches.describe_rules() == {}
        put_rule(rules, placement="WithPods")
        await eventually(lambda: bool((caches.describe_rules() or {}).get("widgets")))
        reason = "the CustomResourceDefinition widgets.example.io does not exist"
        assert caches.describe_rules() == {"widgets": reason}
        assert caches.describe_unserved("Widget") == reason
        assert not caches.may_have_copies("Widget")
        assert list(stores) == added == ["Widget"]
        clusters.define(cluster, WIDGETS)
        await eventually(lambda: complete == ["Widget"])
        assert caches.describe_rules() == {"widgets": ""}
        assert not caches.may_have_copies("Widget")
        body = {"metadata": {"name": "x", "namespace": "default"}}
        verbs.create(cluster, cluster.of(WIDGETS), "default", body, "test")
        await eventually(lambda: caches.may_have_copies("Widget"))
        for entry in rules.list():
            rules.discard(entry, live=True)
        await eventually(lambda: caches.get_rule("Widget") is None)
        assert caches.describe_rules() == {}
    assert not rules._handlers, "a target that is connected again has new caches"
    assert cluster.of(CUSTOM_RESOURCE_DEFINITIONS).get("", "widgets.example.io")


async def test_a_cache_that_is_prepared_early_is_the_one_that_is_filled():
    cluster, rules = clusters.fresh("c2", "10.96.0.0/16", accounts=False), Store()
    clusters.define(cluster, WIDGETS)
    async with follow(Served(cluster), rules) as (caches, stores):
        early = caches.prepare(parse_sync_rule(build_rule(placement="WithPods")))
        assert not early.synced
        put_rule(rules, placement="WithPods")
        await eventually(lambda: early.synced)
        assert stores == {"Widget": early}


async def test_a_deleted_rule_waits_for_its_copies_in_targets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ruled_caches, "RELEASE_RETRY_SECONDS", 0.01)
    cluster, rules = clusters.fresh("home", "10.96.0.0/16", accounts=False), Store()
    clusters.define(cluster, WIDGETS)
    is_left = True
    rule = {"placement": "WithPods", "removalPolicy": "Delete"}
    put_rule(rules, **rule)
    asked: list[str] = []
    async with follow(Served(cluster), rules, HomeRuledCaches) as (caches, stores):
        assert isinstance(caches, HomeRuledCaches)
        caches.set_other_clusters(lambda rule: asked.append(rule.name) or is_left)

        async def patch(_: object, name: str, __: object, **___: object) -> None:
            asked.append(f"released {name}")

        monkeypatch.setattr(caches._client, "patch", patch)
        await eventually(lambda: "Widget" in stores and stores["Widget"].synced)
        put_rule(rules, deleted=True, **rule)
        await eventually(lambda: len(asked) > 3)
        assert set(asked) == {"widgets"}
        is_left = False
        await eventually(lambda: "released widgets" in asked)


async def test_a_finalizer_that_cannot_be_removed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(ruled_caches, "RELEASE_RETRY_SECONDS", 0.01)
    attempts: list[str] = []

    class Refusing:
        """An API server that refuses the first two writes."""

        async def patch(self, _: object, name: str, __: object, **___: object) -> None:
            attempts.append(name)
            if len(attempts) < 3:
                raise errors.Unavailable("no answer")

    rules = Store()
    metadata = {
        "name": "widgets",
        "uid": "r",
        "resourceVersion": "5",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [wellknown.SYNC_RULE_FINALIZER],
    }
    refused = {"conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}]}
    body = {"metadata": {**metadata, "generation": 2}, "spec": {}}
    rules.put(parse_entry(orjson.dumps(body)), live=True)
    caches = HomeRuledCaches(cast("Client", Refusing()), rules, {}, OPTIONS)
    task = asyncio.create_task(caches.run())
    await asyncio.sleep(0.05)
    assert not attempts, "a rule of which vc-manager has not reported may have copies"
    reported = {**body, "status": refused}
    reported["metadata"] = {**body["metadata"], "resourceVersion": "6"}
    rules.put(parse_entry(orjson.dumps(reported)), live=True)
    await eventually(lambda: len(attempts) == 3)
    await asyncio.sleep(0.05)
    assert attempts == ["widgets"] * 3
    task.cancel()
