"""Writes of clients in a span of time by object, and changes of super pods meanwhile.

Owns the span. Refused requests are no writes and are not counted. Must not know which writes a
pod's life needs.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from tenancy.resources import PODS
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.watches import Object

_BY_BINDING = "PodScheduled"
"""The condition that a tenant's pod gets with its binding: no status of its own carries it."""


class WriteTally:
    """One span at a time."""

    def __init__(self, below: MemoryCluster, tenants: Sequence[MemoryCluster]) -> None:
        self._below = below
        self._tenants = tenants
        self._said: dict[tuple[str, str], bytes] = {}
        self._changes: Counter[str] = Counter()

    def begin(self) -> None:
        """Count from now on."""
        self._said.clear()
        self._changes.clear()
        for cluster in (self._below, *self._tenants):
            cluster.written = Counter()
        listeners = self._below.of(PODS).listeners
        if self._seen not in listeners:
            listeners.append(self._seen)

    def end(self) -> dict[str, Any]:
        """Stop the count. Return writes of each side by `verb resource name`, and pod changes."""
        found: dict[str, Any] = {"super": self._below.written or {}, "changes": {**self._changes}}
        above: Counter[str] = Counter()
        for tenant in self._tenants:
            above.update(tenant.written or {})
        for cluster in (self._below, *self._tenants):
            cluster.written = None
        self._below.of(PODS).listeners.remove(self._seen)
        return found | {"tenant": above}

    def _seen(self, kind: str, body: Object) -> None:
        """Note how a super pod's status differs from the one before."""
        metadata = body["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if kind == "DELETED":
            self._said.pop(key, None)
            return
        status = body.get("status") or {}
        conditions = [
            each for each in status.get("conditions") or () if each["type"] != _BY_BINDING
        ]
        said = orjson.dumps({**status, "conditions": conditions})
        if kind != "ADDED" and self._said.get(key) != said:
            self._changes[metadata["name"]] += 1
        self._said[key] = said
