"""Commands of the measuring program to the clusters, one JSON line each over a private socket.

Owns the commands and the counting of requests of all clusters together. Must not know figures.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tenancy import wellknown
from tenancy.resources import PODS, VIRTUAL_CLUSTERS
from tests.support.memapi import drifts, heartbeats, hostility, storms
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.loads import PodLoads
from tests.support.memapi.tallies import WriteTally

_LIMIT = 64 * 1024 * 1024


class ControlServer:
    """Listens for commands."""

    def __init__(
        self, below: MemoryCluster, tenants: Sequence[MemoryCluster], loads: PodLoads
    ) -> None:
        self._below = below
        self._tenants = tenants
        self._loads = loads
        self._tally = WriteTally(below, tenants)
        self._commands: Mapping[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "create": loads.create,
            "delete": loads.delete,
            "churn": loads.churn,
            "calm": self._calm,
            "storm": self._storm,
            "act": self._act,
            "drift": self._drift,
            "beat": self._beat,
            "tally": self._begin,
            "tallied": self._end,
            "count": self._count,
        }

    async def serve(self, path: Path) -> asyncio.Server:
        """Begin to listen."""
        return await asyncio.start_unix_server(self._answer, path, limit=_LIMIT)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = orjson.loads(await reader.readline())
        writer.write(orjson.dumps(await self._do(asked)) + b"\n")
        await writer.drain()
        writer.close()

    async def _do(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        more = {key: value for key, value in asked.items() if key != "do"}
        command = self._commands.get(asked["do"])
        if command is None:
            raise ValueError(f"there is no command {asked['do']!r}")
        return await command(**more)

    async def _storm(self, **more: Any) -> dict[str, Any]:
        return await storms.blow(self._below, **more)

    async def _act(self, tenant: int, **more: Any) -> dict[str, Any]:
        return await hostility.run_acts(self._tenants[tenant], **more)

    async def _drift(self, **more: Any) -> dict[str, Any]:
        return {"late_ms": await drifts.make(self._below, self._tenants, **more)}

    async def _beat(self, **more: Any) -> dict[str, Any]:
        return {"beats": await heartbeats.beat(self._below, **more)}

    async def _calm(self, prefix: str) -> dict[str, Any]:
        self._loads.calm(prefix)
        return {}

    async def _begin(self) -> dict[str, Any]:
        self._tally.begin()
        return {}

    async def _end(self) -> dict[str, Any]:
        return self._tally.end()

    async def _count(self) -> dict[str, Any]:
        above: Counter[str] = Counter()
        for tenant in self._tenants:
            above.update(tenant.requests)
        return {
            "super": self._below.requests,
            "tenant": above,
            "engaged": self._engaged(),
            "twins": len(self._below.of(PODS)),
        }

    def _engaged(self) -> int:
        """Count the VirtualClusters whose condition Synced is true."""
        bodies = [found.decode() for found in self._below.of(VIRTUAL_CLUSTERS).all()]
        return sum(
            any(
                each["type"] == wellknown.SYNCED and each["status"] == "True"
                for each in (body.get("status") or {}).get("conditions") or ()
            )
            for body in bodies
        )
