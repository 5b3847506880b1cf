"""Follow one VirtualCluster as it changes.

Owns the watch and its renewal. Must not know what the states mean. Hazard: a watch breaks at any
time, and what happened meanwhile is only seen by reading again.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.resources import VIRTUAL_CLUSTERS

_PAUSE = 1.0  # seconds before a broken watch is renewed, or the next look without one


@contextlib.asynccontextmanager
async def states(
    super_client: Client, namespace: str, name: str
) -> AsyncIterator[AsyncIterator[Object | None]]:
    """Follow a VirtualCluster; leaving the block ends the watch."""
    async with contextlib.aclosing(_states(super_client, namespace, name)) as found:
        yield found


async def _states(
    super_client: Client, namespace: str, name: str
) -> AsyncGenerator[Object | None, None]:
    """Yield the VirtualCluster now and after each change; None once it is gone, and end then."""
    while True:
        try:
            seen = await super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
        except errors.NotFound:
            yield None
            return
        except (errors.Unavailable, errors.TooManyRequests):
            await asyncio.sleep(_PAUSE)
            continue
        yield seen
        async with contextlib.aclosing(_changes(super_client, seen)) as changes:
            async for changed in changes:
                yield changed


async def _changes(super_client: Client, seen: Object) -> AsyncGenerator[Object, None]:
    """Yield what follows on a state, until the watch ends or the object is gone."""
    metadata = seen["metadata"]
    # Who may get but not watch is served too, a little later.
    with contextlib.suppress(
        errors.Unavailable, errors.Gone, errors.TooManyRequests, errors.Forbidden
    ):
        async with super_client.watch(
            VIRTUAL_CLUSTERS,
            namespace=metadata["namespace"],
            field_selector=f"metadata.name={metadata['name']}",
            resource_version=metadata["resourceVersion"],
        ) as events:
            async for event in events:
                if event.type == "DELETED":
                    return
                if event.type != "BOOKMARK":
                    yield event.decode()
    await asyncio.sleep(_PAUSE)
