"""Caches of kinds that SyncRules declare: the end of a deleted rule."""

from __future__ import annotations

import asyncio
from typing import cast

import orjson
import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Store, parse_entry
from kubeio.loop_budget import LoopBudget
from syncer.clusters import ruled_caches
from syncer.clusters.ruled_caches import RuledCaches
from tenancy import wellknown
from tests.support.eventually import eventually


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
    caches = RuledCaches(
        cast("Client", Refusing()),
        rules,
        {},
        label_selector="",
        create_store=Store,
        loop_budget=LoopBudget(),
        is_budget_spent=lambda: False,
    )
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
