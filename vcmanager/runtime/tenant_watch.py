"""Watch on the manager's objects in one tenant, which triggers a reconcile on a change.

Owns a few watches by label, and the pace. Must not write: a reconcile restores missing objects.
Hazard: a tenant admin may change the objects as fast as a script can, and a webhook of the tenant
may change each write again. The pauses therefore grow until the objects stay unchanged for a while.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Entry, Store
from tenancy import wellknown
from tenancy.resources import Resource

QUIET_SECONDS = 600.0
"""Quiet time in seconds after which the pause is reset to its base of about 1 s."""
_BASE, _CEILING = 1.0, 60.0
_SELECTED = f"{wellknown.BOOTSTRAP}=true"


class Lookout:
    """Watches the manager's objects in one tenant while it is open."""

    def __init__(
        self, client: Client, resources: Sequence[Resource], changed: Callable[[], None]
    ) -> None:
        """Start the watches. `changed` is called shortly after an object was changed or deleted."""
        self._changed = changed
        self._backoff = Backoff(base=_BASE, ceiling=_CEILING)
        self._last = float("-inf")
        self._due: asyncio.TimerHandle | None = None
        self._reflectors = []
        for resource in resources:
            store = Store()
            store.subscribe(self._seen)
            self._reflectors.append(
                Reflector(
                    client,
                    resource,
                    store,
                    label_selector=_SELECTED,
                    metadata_only=True,
                    side="tenant",
                )
            )
        self._running = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop the watches."""
        if self._due is not None:
            self._due.cancel()
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"lookout-{reflector.resource.plural}")

    def _seen(self, old: Entry | None, _: Entry | None, __: bool) -> None:
        if old is None:
            return  # created: by the manager, or after a deletion that was reported
        now = asyncio.get_running_loop().time()
        if now - self._last > QUIET_SECONDS:
            self._backoff.reset()
        self._last = now
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(self._backoff.next(), self._tell)

    def _tell(self) -> None:
        self._due = None
        self._changed()
