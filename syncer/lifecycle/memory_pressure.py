"""Loop that disconnects the largest tenant when the memory of the process runs out.

Owns the interval and the effect. `syncer.safety.memory_guard` decides.
"""

import asyncio
import ctypes
import math
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from kubeio.cache.cache_budget import CacheBudget
from syncer.safety import memory_guard
from syncer.safety.memory_guard import MemoryUse
from tenancy.ownership import Tenant

CHECK_SECONDS = 0.5
"""Interval in seconds. A tenant API server can send some 100 MiB/s."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class MeasuredConnection(Protocol):
    """Interface of a connection, as this module uses it."""

    tenant: Tenant
    cache_budget: CacheBudget


class MemoryPressure:
    """Disconnects tenants while the process uses too much memory."""

    def __init__(
        self,
        connections: Mapping[str, MeasuredConnection],
        *,
        limit: int | None,
        read_resident: Callable[[], int] = memory_guard.read_resident_bytes,
    ) -> None:
        """`limit` is the memory limit of the process in bytes. None: no tenant is disconnected."""
        self._connections = connections
        self._limit = limit
        self._read_resident = read_resident
        self._last_shed = -math.inf

    async def run(self) -> None:
        """Check until cancelled."""
        if self._limit is None:
            _log.info("memory.no_limit")
            return
        while True:
            self.check(asyncio.get_running_loop().time())
            await asyncio.sleep(CHECK_SECONDS)

    def check(self, now: float) -> None:
        """Disconnect the largest tenant, if the memory runs out."""
        use = MemoryUse(self._read_resident(), self._limit)
        tenants = {
            uid: link.cache_budget.size
            for uid, link in self._connections.items()
            if link.cache_budget.overflow is None
        }
        uid = memory_guard.choose_tenant(use, tenants, since_last_shed=now - self._last_shed)
        if uid is None:
            return
        self._last_shed = now
        link = self._connections[uid]
        _log.warning(
            "memory.tenant_shed",
            tenant=link.tenant.root,
            tenant_bytes=tenants[uid],
            resident=use.resident,
            limit=use.limit,
        )
        link.cache_budget.exceed(
            f"the syncer uses {use.resident} of {use.limit} bytes, and this tenant uses most of"
            f" them, {tenants[uid]} bytes"
        )


def trim_heap() -> None:
    """Return freed memory to the kernel. Otherwise the resident memory stays as it was."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # another C library
        return
