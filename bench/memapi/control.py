"""What the measuring program tells the clusters to do, one JSON line each over a private socket.

Owns the commands and the counting of requests of all clusters together. Must not know figures.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.memapi import drifts, storms
from bench.memapi.cluster import Cluster
from bench.memapi.loads import Loads
from tenancy import marks
from tenancy.resources import PODS, VIRTUAL_CLUSTERS

_LIMIT = 64 * 1024 * 1024


class Control:
    """Listens for commands."""

    def __init__(self, below: Cluster, tenants: Sequence[Cluster], loads: Loads) -> None:
        self._below = below
        self._tenants = tenants
        self._loads = loads

    async def serve(self, path: Path) -> asyncio.Server:
        """Begin to listen."""
        return await asyncio.start_unix_server(self._answer, path, limit=_LIMIT)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = orjson.loads(await reader.readline())
        writer.write(orjson.dumps(await self._do(asked)) + b"\n")
        await writer.drain()
        writer.close()

    async def _do(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        match asked["do"]:
            case "create":
                return await self._loads.create(
                    asked["prefix"], asked["tenants"], asked["pods"], asked["per_second"]
                )
            case "delete":
                return await self._loads.delete(asked["prefix"], asked["per_second"])
            case "storm":
                changes = await storms.blow(
                    self._below, asked["prefix"], asked["per_second"], asked["seconds"]
                )
                return {"changes": changes}
            case "drift":
                late = await drifts.make(
                    self._below,
                    asked["prefix"],
                    asked["count"],
                    asked["per_second"],
                    asked["patience"],
                )
                return {"late_ms": late}
            case "count":
                return self._count()
        raise ValueError(f"there is no command {asked['do']!r}")

    def _count(self) -> dict[str, Any]:
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
                each["type"] == marks.SYNCED and each["status"] == "True"
                for each in (body.get("status") or {}).get("conditions") or ()
            )
            for body in bodies
        )
