"""Caches of ruled kinds over an API server in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson

from kubeio.api.client import Client
from kubeio.cache.store import Store, parse_entry
from kubeio.loop_budget import LoopBudget
from syncer.clusters.ruled_caches import RuledCacheOptions, RuledCaches
from tenancy import wellknown
from tenancy.resources import Resource
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
    """Have a rule, as `build_rule` returns it."""
    rules.put(parse_entry(orjson.dumps(build_rule(**rule))), live=True)
