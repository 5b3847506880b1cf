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
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from tenancy import wellknown
from tenancy.resources import Resource

BACKOFF_RESET_SECONDS = 600.0
"""Quiet time in seconds after which the pause is reset to its base of about 1 s."""
_BASE_DELAY_SECONDS, _MAX_DELAY_SECONDS = 1.0, 60.0
_SELECTOR = f"{wellknown.BOOTSTRAP}=true"


class TenantWatch:
    """Watches the manager's objects in one tenant while it is open."""

    def __init__(
        self, client: Client, resources: Sequence[Resource], on_changed: Callable[[], None]
    ) -> None:
        """Start the watches. `on_changed` is called soon after a change or deletion."""
        self._on_changed = on_changed
        self._backoff = Backoff(base=_BASE_DELAY_SECONDS, ceiling=_MAX_DELAY_SECONDS)
        self._last_change_at = float("-inf")
        self._due_timer: asyncio.TimerHandle | None = None
        self._reflectors = []
        for resource in resources:
            store = Store()
            store.subscribe(self._handle_event)
            self._reflectors.append(
                Reflector(
                    client,
                    resource,
                    store,
                    ReflectorOptions(label_selector=_SELECTOR, metadata_only=True, side="tenant"),
                )
            )
        self._running = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop the watches."""
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"lookout-{reflector.resource.plural}")

    def _handle_event(self, old: Entry | None, _: Entry | None, __: bool) -> None:
        if old is None:
            return  # created: by the manager, or after a deletion that was reported
        now = asyncio.get_running_loop().time()
        if now - self._last_change_at > BACKOFF_RESET_SECONDS:
            self._backoff.reset()
        self._last_change_at = now
        if self._due_timer is None:
            self._due_timer = asyncio.get_running_loop().call_later(
                self._backoff.next(), self._notify
            )

    def _notify(self) -> None:
        self._due_timer = None
        self._on_changed()
