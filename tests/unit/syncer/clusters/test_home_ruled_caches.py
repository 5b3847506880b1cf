"""Caches of the home cluster for kinds that SyncRules declare: the end of a deleted rule."""

from __future__ import annotations

import asyncio
from typing import cast

import orjson
import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Store, parse_entry
from syncer.clusters import ruled_caches
from syncer.clusters.home_ruled_caches import HomeRuledCaches
from tenancy import wellknown
from tests.support.eventually import eventually
from tests.support.memapi import clusters
from tests.support.memapi.served import Served
from tests.support.syncer.ruled_caches import OPTIONS, WIDGETS, follow, put_rule


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
