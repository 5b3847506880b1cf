"""Watch on one VirtualCluster.

Owns the watch and its renewal. Must not know what the states mean. Hazard: after a watch breaks,
the object must be read again. Otherwise the changes between two watches are lost.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.resources import VIRTUAL_CLUSTERS

_WATCH_RETRY_SECONDS = (
    1.0  # seconds before a broken watch is renewed, or before the next read without a watch
)


@contextlib.asynccontextmanager
async def watch_states(
    super_client: Client, namespace: str, name: str
) -> AsyncIterator[AsyncIterator[Object | None]]:
    """Open a watch on a VirtualCluster. It ends with the block."""
    async with contextlib.aclosing(_iterate_states(super_client, namespace, name)) as found:
        yield found


async def _iterate_states(
    super_client: Client, namespace: str, name: str
) -> AsyncGenerator[Object | None, None]:
    """Yield the VirtualCluster now and after each change. Yield None at its deletion and return."""
    while True:
        try:
            seen = await super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
        except errors.NotFound:
            yield None
            return
        except (errors.Unavailable, errors.TooManyRequests):
            await asyncio.sleep(_WATCH_RETRY_SECONDS)
            continue
        yield seen
        async with contextlib.aclosing(_iterate_changes(super_client, seen)) as changes:
            async for changed in changes:
                yield changed


async def _iterate_changes(super_client: Client, seen: Object) -> AsyncGenerator[Object, None]:
    """Yield the changes after a state, until the watch ends or the object is deleted."""
    metadata = seen["metadata"]
    # A user who may get but not watch is served as well, a little later.
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
    await asyncio.sleep(_WATCH_RETRY_SECONDS)
