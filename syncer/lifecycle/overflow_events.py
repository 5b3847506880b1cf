"""The Event in a tenant about its size, because a tenant cannot read its VirtualCluster.

The Event is about the namespace that uses most memory of the syncer. Must not decide which tenant
is too large.
"""

import asyncio
import contextlib

import msgspec

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.cache_budget import CacheOverflow
from kubeio.cache.store import parse_entry
from kubeio.config.endpoint import Endpoint
from syncer.lifecycle.overflow_backoff import describe_overflow
from syncer.tenants import conditions
from syncer.tenants.event_recorder import TenantEventRecorder
from tenancy.resources import NAMESPACES

_MAX_SECONDS = 5.0
"""Deadline in seconds. The tenant's pause begins after it."""


async def report_overflow(endpoint: Endpoint, overflow: CacheOverflow) -> None:
    """Post an Event about an overflow in the tenant of an endpoint.

    The connection of the overflow is closed, so the Event has one of its own. If the tenant does
    not answer in time, the Event is lost. The next attempt posts another one.
    """
    with contextlib.suppress(errors.KubeError, TimeoutError):
        async with asyncio.timeout(_MAX_SECONDS), Client(endpoint) as client:
            found = await client.get(NAMESPACES, overflow.namespace or "default")
            await TenantEventRecorder(client).record(
                NAMESPACES,
                parse_entry(msgspec.json.encode(found)),
                reason=conditions.TOO_LARGE,
                message=describe_overflow(overflow),
            )
