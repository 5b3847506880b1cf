"""Follow one VirtualCluster as it changes.

Owns the watch and its renewal. Must not know what the states mean. Hazard: a watch breaks at any
time, and what happened meanwhile is only seen by reading again.
"""

import asyncio
from collections.abc import AsyncIterator

from kubeio import Object, errors
from kubeio.client import Client
from tenancy.resources import VIRTUAL_CLUSTERS

_PAUSE = 1.0  # seconds before a broken watch is renewed


async def states(super_client: Client, namespace: str, name: str) -> AsyncIterator[Object | None]:
    """Yield the VirtualCluster now and after each change; None once it is gone, and end then."""
    selector = f"metadata.name={name}"
    while True:
        try:
            seen = await super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
            yield seen
            version = str(seen["metadata"]["resourceVersion"])
            async with super_client.watch(
                VIRTUAL_CLUSTERS,
                namespace=namespace,
                field_selector=selector,
                resource_version=version,
            ) as events:
                async for event in events:
                    if event.type == "DELETED":
                        break
                    if event.type != "BOOKMARK":
                        yield event.decode()
        except errors.NotFound:
            yield None
            return
        except (errors.Unavailable, errors.Gone, errors.TooManyRequests):
            await asyncio.sleep(_PAUSE)
