"""Memory of one session about the virtual nodes that it creates.

Owns the nodes in creation, those created completely, those that pods wait for, and the fields that
the tenant's API does not know. Must not write nodes. Hazard: all memory must be bounded by pods and
nodes that exist. Otherwise a tenant fills it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

from syncer.model.keys import Key

UNKNOWN_FIELD_SECONDS = 3600.0
"""Time in seconds for which a field counts as unknown to a tenant's API. The API's version may
change.
"""


class NodeMemory:
    """Memory about the virtual nodes of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._awaited: dict[Key, str] = {}
        self._in_creation: dict[str, asyncio.Event] = {}
        self._created: set[str] = set()
        self._unknown_fields: dict[str, float] = {}
        self._renewed_at = float("-inf")

    def add_awaited(self, pod: Key, node: str) -> None:
        """Record the node that a pod will be bound to."""
        self._awaited[pod] = node

    def forget_pod(self, pod: Key) -> None:
        """Forget a pod that is bound, or whose name belongs to no pod or to a different pod."""
        self._awaited.pop(pod, None)

    def iterate_awaited(self) -> Iterator[tuple[Key, str]]:
        """Yield each waiting pod with its node. `forget_pod` may be called meanwhile."""
        yield from list(self._awaited.items())

    def get_creation(self, node: str) -> asyncio.Event | None:
        """Return the event that is set when the present reconcile of a node ends, or None."""
        return self._in_creation.get(node)

    @asynccontextmanager
    async def reserve(self, node: str) -> AsyncIterator[None]:
        """Wait until no other reconcile of a node runs, and keep others waiting meanwhile."""
        while (running := self._in_creation.get(node)) is not None:
            await running.wait()
        ended = self._in_creation[node] = asyncio.Event()
        try:
            yield
        finally:
            del self._in_creation[node]
            ended.set()

    def record_created(self, node: str) -> None:
        """Record that a node was created completely. It applies until the cache shows the node."""
        self._created.add(node)

    def is_created(self, node: str) -> bool:
        """Return True if a node was created completely, by the last answers."""
        return node in self._created

    def forget_created(self, node: str) -> None:
        """Forget that a node was created, because the cache shows it or it is written again."""
        self._created.discard(node)

    def record_unknown_fields(self, fields: Iterable[str]) -> None:
        """Record fields of a node's status that the tenant's API does not know."""
        self._unknown_fields.update(dict.fromkeys(fields, self._clock() + UNKNOWN_FIELD_SECONDS))

    def is_field_unknown(self, field: str) -> bool:
        """Return True if the tenant's API does not know a field of a node's status."""
        return self._unknown_fields.get(field, 0.0) > self._clock()

    def get_seconds_to_renewal(self, seconds: float) -> float:
        """Return the seconds until the next lease renewal. `seconds` is the interval."""
        return self._renewed_at + seconds - self._clock()

    def record_lease_renewal(self) -> None:
        """Record that the node's lease is renewed now, or that a renewal was tried."""
        self._renewed_at = self._clock()
